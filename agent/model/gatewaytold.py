"""Addresses and CA of a cluster's gateways, which its agent publishes in the ClusterSummary. Pure.

Sources copy both to GatewayPeers, for the gateways of other clusters.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from agent.api.conditions import is_true
from agent.api.names import ANNOTATION_CLUSTER_UID
from agent.api.names.links import ADDRESS_LIMIT, ADDRESSES_LIMIT, ANNOTATION_GATEWAY, CA_LIMIT, GATEWAY_SECRET
from agent.model import hostport
from agent.model.gatewaypeer import is_address
from agent.model.summary import told_uid

_TEXT_LIMIT = 65536
_DIGITS = 16
_NODES = 3
"""Maximum number of nodes with published addresses, for a Service of type NodePort."""
_OUTSIDE = ("ExternalIP", "InternalIP")


class Told(NamedTuple):
    """CA and addresses of a cluster's gateways."""

    ca: str
    """CA certificate (PEM); the old and the new one while the CA is replaced."""
    addresses: tuple[str, ...] = ()
    """HOST:PORT of the gateways; empty if other clusters cannot call them."""


class _Document(msgspec.Struct, omit_defaults=True):
    ca: str
    addresses: list[str] = []


_decoder = msgspec.json.Decoder(_Document)
_encode = msgspec.json.Encoder(order="sorted").encode


def write(told: Told) -> str:
    """Return the value of the annotation."""
    return _encode(_Document(told.ca, list(told.addresses))).decode()


def is_replacing(ca: str) -> bool:
    """Return True if a CA (PEM) is being replaced: the old and the new certificate are both published."""
    return ca.count("-----BEGIN CERTIFICATE-----") > 1


def digest(ca: str) -> str:
    """Return the digest of a CA (PEM) for the annotation of a GatewayPeer."""
    return hashlib.sha256(ca.encode()).hexdigest()[:_DIGITS]


def read(annotations: Mapping[str, str] | None) -> Told | None:
    """Read a ClusterSummary's annotation; return None if it is missing or invalid."""
    found = _judged(annotations or {})
    return found if isinstance(found, Told) else None


def usable(annotations: Mapping[str, str] | None) -> bool:
    """Return True if a ClusterSummary has gateways and a UID, both valid."""
    return isinstance(_judged(annotations or {}), Told) and bool(told_uid(annotations or {}))


def flaw(annotations: Mapping[str, str] | None) -> str:
    """Return why the gateways of a ClusterSummary cannot be used, with field and remedy; empty if valid or missing.

    The cluster's UID is required, because the certificates of gateways contain it.
    """
    found = _judged(annotations or {})
    if isinstance(found, str):
        return f"{ANNOTATION_GATEWAY} of its ClusterSummary: {found}"
    if found is not None and not told_uid(annotations or {}):
        return f"{ANNOTATION_CLUSTER_UID} of its ClusterSummary is no UID of a cluster: its agent writes it"
    return ""


def _judged(annotations: Mapping[str, str]) -> Told | str | None:
    """Return the gateways, or a message if the annotation is invalid, or None if it is missing."""
    text = annotations.get(ANNOTATION_GATEWAY)
    if text is None:
        return None
    if len(text) > _TEXT_LIMIT:
        return f"it is longer than {_TEXT_LIMIT} characters: its agent writes it"
    try:
        found = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return f"it is no JSON of ca and addresses ({error}): its agent writes it"
    if not found.ca or len(found.ca) > CA_LIMIT:
        return f"ca: it has to have 1 to {CA_LIMIT} characters: see the Secret {GATEWAY_SECRET} there"
    if len(found.addresses) > ADDRESSES_LIMIT:
        return f"addresses: there are more than {ADDRESSES_LIMIT}: set fewer as gateway.addresses there"
    for address in found.addresses:
        if len(address) > ADDRESS_LIMIT or not is_address(address):
            return f"addresses: {address[:ADDRESS_LIMIT]!r} is not HOST:PORT: correct gateway.addresses there"
    return Told(found.ca, tuple(found.addresses))


def exposed(service: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]], port: str) -> list[str]:
    """Return HOST:PORT of a Service for other clusters: at its load balancer, or at node ports of up to three nodes.

    :param port: name of the Service's port
    """
    spec = service["spec"]
    found = next((each for each in spec.get("ports") or () if each.get("name") == port), None)
    if found is None:
        return []
    if spec.get("type") == "LoadBalancer":
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        hosts = [str(each.get("ip") or each.get("hostname") or "") for each in ingress]
        return sorted(hostport.join(host, found["port"]) for host in hosts if host)[:ADDRESSES_LIMIT]
    if spec.get("type") == "NodePort" and found.get("nodePort"):
        families = spec.get("ipFamilies") or ["IPv4", "IPv6"]
        nodes_hosts = sorted(filter(None, (_outside(node, families) for node in nodes)))
        return [hostport.join(host, found["nodePort"]) for hosts in nodes_hosts[:_NODES] for host in hosts]
    return []


def _outside(node: Mapping[str, Any], families: Iterable[str]) -> list[str]:
    """Return the addresses of a ready node that other clusters can reach, one in each IP family that has one.

    kube-proxy serves the port of a node in the IP families of the Service only.
    """
    status = node.get("status") or {}
    if not is_true(status.get("conditions"), "Ready"):
        return []
    for type in _OUTSIDE:
        every = [str(each["address"]) for each in status.get("addresses") or () if each["type"] == type]
        first = (next((each for each in every if (":" in each) == (family == "IPv6")), "") for family in families)
        if hosts := list(filter(None, first)):
            return hosts
    return []
