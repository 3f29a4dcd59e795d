"""What a cluster tells of its gateways in its ClusterSummary: where they are called, and the CA of their certificates.

Sources hand it on to the gateways of other clusters, in GatewayPeers. Pure.
"""

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
_NODES = 3
"""Nodes whose ports are told where the Service is of type NodePort."""
_OUTSIDE = ("ExternalIP", "InternalIP")


class Told(NamedTuple):
    """What a cluster tells of its gateways."""

    ca: str
    """PEM; while a CA is replaced, both."""
    addresses: tuple[str, ...] = ()
    """HOST:PORT; none: they call, and are not called."""


class _Document(msgspec.Struct, omit_defaults=True):
    ca: str
    addresses: list[str] = []


_decoder = msgspec.json.Decoder(_Document)
_encode = msgspec.json.Encoder(order="sorted").encode


def write(told: Told) -> str:
    """The annotation that tells it."""
    return _encode(_Document(told.ca, list(told.addresses))).decode()


def read(annotations: Mapping[str, str] | None) -> Told | None:
    """What a summary with these annotations tells; None where there are no gateways, or it cannot be used."""
    found = _judged(annotations or {})
    return found if isinstance(found, Told) else None


def usable(annotations: Mapping[str, str] | None) -> bool:
    """Whether a summary tells of gateways, and nothing is wrong with that."""
    return isinstance(_judged(annotations or {}), Told) and bool(told_uid(annotations or {}))


def flaw(annotations: Mapping[str, str] | None) -> str:
    """Why what a summary tells of gateways cannot be used, with the field and the remedy; empty where nothing is wrong.

    Nothing is where it tells of none. Its UID belongs to it: by that gateways know each other.
    """
    found = _judged(annotations or {})
    if isinstance(found, str):
        return f"{ANNOTATION_GATEWAY} of its ClusterSummary: {found}"
    if found is not None and not told_uid(annotations or {}):
        return f"{ANNOTATION_CLUSTER_UID} of its ClusterSummary is no UID of a cluster: its agent writes it"
    return ""


def _judged(annotations: Mapping[str, str]) -> Told | str | None:
    """What is told, what is wrong with it, or None where nothing is."""
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
    """Where a Service is reached from outside of its cluster: at its load balancer, or else at ports of some nodes.

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
