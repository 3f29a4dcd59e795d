"""Addresses that a gateway may call: those of pods of the EndpointSlice's namespace in its own cluster. Pure.

Addresses in EndpointSlices cannot be trusted: a source with the feature `services` may write EndpointSlices with any
address. If gateways called these, the source would reach pods of other namespaces, even with NetworkPolicies, which
admit gateways.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from agent.model.abridged import abridged
from agent.model.gatewaylink import by_service, is_elsewhere, is_ready
from agent.model.podstate import OTHER_PODS

Raw = dict[str, Any]
Addresses = Mapping[str, Collection[str]]
"""IP addresses of running pods by namespace."""

RUNNING_PODS = f"spec.nodeName!=,{OTHER_PODS},status.phase!=Succeeded,status.phase!=Failed"
"""Field selector. The address of a finished pod may already belong to another pod. The address of a proxy pod is that
of its delegate in another cluster."""
_SHOWN = 2


class _Address(msgspec.Struct):
    ip: str = ""


class _Status(msgspec.Struct):
    pod_ips: list[_Address] = msgspec.field(default_factory=list, name="podIPs")


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    resource_version: str
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Pod).decode


def reduced(pod: bytes) -> bytes:
    """Return the part of a pod that a gateway caches: name, node, addresses; no containers and variables."""
    return msgspec.json.encode(_decode(pod))


def addresses_of(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the addresses of a pod; none if the pod is on a virtual node, whose pods run in another cluster."""
    if is_elsewhere(pod.get("spec") or {}):
        return frozenset()
    return frozenset(each["ip"] for each in (pod.get("status") or {}).get("podIPs") or () if each.get("ip"))


def of_pods(slices: Iterable[Mapping[str, Any]], pods: Addresses) -> list[Raw]:
    """Return EndpointSlices with only the endpoints whose address belongs to a pod of the namespace."""
    found = list[Raw]()
    for each in slices:
        endpoints, own = each.get("endpoints") or (), pods.get(each["metadata"]["namespace"], ())
        kept = [endpoint for endpoint in endpoints if _address(endpoint) in own]
        found.append({**each, "endpoints": kept})
    return found


def left_out(slices: Iterable[Mapping[str, Any]], pods: Addresses) -> dict[tuple[str, str], list[str]]:
    """Return the ready endpoints that belong to no pod of their namespace, by namespace and Service."""
    found = dict[tuple[str, str], list[str]]()
    for at, some in by_service(slices).items():
        own = pods.get(at[0], ())
        ready = (each for slice in some for each in slice.get("endpoints") or () if is_ready(each))
        if foreign := {_address(each) for each in ready if not is_elsewhere(each)}.difference(own):
            found[at] = sorted(foreign)
    return found


def warning(
    peer: Mapping[str, Any], found: Mapping[tuple[str, str], Iterable[str]], fields: Iterable[str], error: str = ""
) -> str:
    """Return a message about endpoints of a peer's Services that the gateway does not call; empty if none.

    :param found: result of `left_out`
    :param fields: fields of the spec that name the Services that the peer may call
    :param error: why the gateway cannot watch pods at the moment; empty if it can
    """
    namespace = peer["metadata"]["namespace"]
    names = {each["name"] for field in fields for each in peer["spec"].get(field) or ()} if found else ()
    wrong = [f"{ip} of Service {name}" for name in sorted(names) for ip in found.get((namespace, name), ())]
    if not wrong:
        return ""
    shown = abridged(wrong, _SHOWN)
    if error:
        return (
            f"gateways cannot watch pods ({error}), and do not call addresses that may belong to new pods of namespace"
            f" {namespace}: {shown}: let the service account of the gateways list and watch pods, or see that the API"
            " server answers"
        )
    return (
        f"gateways do not call endpoints whose addresses belong to no running pod of namespace {namespace}:"
        f" {shown}: have the Service select pods"
    )


def _address(endpoint: Mapping[str, Any]) -> str:
    return str((endpoint.get("addresses") or ("",))[0])
