"""What a cluster tells of its gateways in its ClusterSummary: where they are called, and the CA of their certificates.

Sources hand it on to the gateways of other clusters, in GatewayPeers. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from agent.api.conditions import is_true
from agent.api.names.links import ANNOTATION_GATEWAY
from agent.model import hostport
from agent.model.gatewaypeer import is_address

ADDRESSES_LIMIT = 16
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
    """What a summary with these annotations tells; None where there are no gateways, or it cannot be read."""
    text = (annotations or {}).get(ANNOTATION_GATEWAY)
    if text is None or len(text) > _TEXT_LIMIT:
        return None
    try:
        found = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not found.ca or len(found.addresses) > ADDRESSES_LIMIT or not all(map(is_address, found.addresses)):
        return None
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
        hosts = sorted(filter(None, map(_outside, nodes)))
        return [hostport.join(host, found["nodePort"]) for host in hosts[:_NODES]]
    return []


def _outside(node: Mapping[str, Any]) -> str:
    """The address at which a node that is ready is reached from outside, empty if there is none."""
    status = node.get("status") or {}
    ready = is_true(status.get("conditions"), "Ready")
    told = {each["type"]: each["address"] for each in status.get("addresses") or ()}
    return next((told[type] for type in _OUTSIDE if type in told), "") if ready else ""
