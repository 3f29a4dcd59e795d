"""EndpointSlices by which a cluster's own gateways are called for Services of others, and the ports for that.

kube-proxy weighs endpoints alike and tells them apart by address and port: a Service with many pods elsewhere has
several ports at each gateway. Pure.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_PEER
from agent.model.abridged import abridged
from agent.model.gatewaylink import CALLED, called, locals_of
from agent.model.gatewaypeer import FIRST_PORT, LAST_PORT, TCP, Protocol
from agent.model.servicelinks import CONNECTED, Finding

Raw = dict[str, Any]
_K = TypeVar("_K", bound=Hashable)
WEIGHT_LIMIT = 8
"""Endpoints that one gateway pod has for one Service of a peer."""
_SHOWN = 2


class Pod(NamedTuple):
    """A pod of the own gateways."""

    name: str
    address: str
    ready: bool = True


class Full(ValueError):
    """There is no free port any more."""


def weight(ready: int, gateways: int) -> int:
    """How many endpoints a Service with so many ready pods elsewhere has at each gateway."""
    return min(WEIGHT_LIMIT, max(1, -(-ready // max(gateways, 1))))


def allot(peer: Mapping[str, Any], taken: Collection[int], gateways: int, protocol: Protocol = TCP) -> list[Raw]:
    """Local ports for every port of a peer's Services, as the status has them: those that it has, and new ones.

    Those of one protocol: a number stands for one of them alone.

    A port that is too many stays, as connections through it do, until the Service is not called any more.

    :param taken: what stands for something else
    :raises Full: when none is free
    """
    had, services = locals_of(peer), peer["spec"].get(CALLED[protocol]) or ()
    wanted = {
        (each["name"], port["port"], protocol): weight(each.get("ready", 0), gateways)
        for each in services
        for port in each["ports"]
    }
    of_others = {port for (*_, other), found in had.items() if other != protocol for port in found}
    kept = keep_and_add(wanted, had, {*taken, *of_others})
    return [
        {
            "name": each["name"],
            "ports": [
                {"port": port["port"], "locals": kept[each["name"], port["port"], protocol]} for port in each["ports"]
            ],
        }
        for each in services
    ]


def keep_and_add(
    wanted: Mapping[_K, int], had: Mapping[_K, Collection[int]], taken: Collection[int]
) -> dict[_K, list[int]]:
    """So many local ports at least for each: those that it has, and new ones. Raises Full.

    None is taken from one for another at once: gateways may still listen there for the one.
    """
    used, kept = set(taken), dict[_K, list[int]]()
    for key in wanted:
        kept[key] = []
        for each in had.get(key, ()):
            if FIRST_PORT <= each <= LAST_PORT and each not in used:
                kept[key].append(each)
                used.add(each)
    used.update(each for found in had.values() for each in found)
    free = (each for each in range(FIRST_PORT, LAST_PORT + 1) if each not in used)
    for key, count in wanted.items():
        while len(kept[key]) < count:
            if (number := next(free, None)) is None:
                raise Full(f"all ports from {FIRST_PORT} to {LAST_PORT} are taken: share fewer Services by gateways")
            kept[key].append(number)
    return kept


def slices(peer: Mapping[str, Any], pods: Sequence[Pod], family: str, services: Collection[str]) -> list[Raw]:
    """The slices of a peer's Services at the own gateways.

    A gateway's endpoint is ready when it has said that it listens there, and that the peer answers it. UDP ports are in
    slices of their own: a peer may take TCP alone.

    :param family: address type of the gateways' own slices
    :param services: names of those whose callers may be sent there
    """
    found, allotted = list[Raw](), locals_of(peer)
    for protocol, each in called(peer) if pods else ():
        if each["name"] not in services:
            continue
        for number in range(weight(each.get("ready", 0), len(pods))):
            ports = [
                (port.get("name") or "", allotted[each["name"], port["port"], protocol][number])
                for port in each["ports"]
                if len(allotted.get((each["name"], port["port"], protocol), ())) > number
            ]
            if ports:
                found.append(at_gateways(peer, each, number, ports, pods, family, protocol))
    return found


def at_gateways(
    peer: Mapping[str, Any],
    service: Mapping[str, Any],
    number: int,
    ports: Sequence[tuple[str, int]],
    pods: Sequence[Pod],
    family: str,
    protocol: Protocol = TCP,
) -> Raw:
    """A slice of a Service (its `name`, and how many are `ready` there) that leads to local ports of the gateways."""
    metadata, says = peer["metadata"], (peer.get("status") or {}).get("gateways") or {}
    apart = "" if protocol == TCP else f"-{protocol.lower()}"
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.name,
        "metadata": {
            "name": names.mirror(f"{service['name']}-gateway{apart}", f"{metadata['name']}/{family}", number),
            "namespace": metadata["namespace"],
            "labels": {
                names.LABEL_SERVICE_NAME: service["name"],
                names.LABEL_SLICE_MANAGED_BY: GATEWAY_SLICE_MANAGER,
                LABEL_GATEWAY_PEER: metadata["name"],
            },
            "ownerReferences": [owner(peer)],
        },
        "addressType": family,
        "ports": [{"name": name, "port": port, "protocol": protocol} for name, port in ports],
        "endpoints": [
            {
                "addresses": [pod.address],
                "conditions": {
                    "ready": service.get("ready", 0) > 0
                    and pod.ready
                    and _reaches(says.get(pod.name), [port for _, port in ports])
                },
            }
            for pod in pods
        ],
    }


def owner(peer: Mapping[str, Any]) -> Raw:
    """The reference to a GatewayPeer of what goes with it."""
    metadata = peer["metadata"]
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name, "controller": True}
    return {**head, "name": metadata["name"], "uid": metadata["uid"]}


def _reaches(says: Mapping[str, Any] | None, ports: Iterable[int]) -> bool:
    return says is not None and bool(says.get("healthy")) and set(ports) <= set(says.get("listens") or ())


def connected(peer: Mapping[str, Any], pods: Sequence[Pod]) -> Finding:
    """Whether a peer answers any of the own gateways, and if not, why."""
    if not pods:
        return Finding("False", "NoGateway", "no pod of this cluster's gateways runs: see their Deployment")
    says = (peer.get("status") or {}).get("gateways") or {}
    told = [says[pod.name] for pod in pods if pod.name in says]
    if any(each.get("healthy") for each in told):
        wrong = [f"{pod.name}: {says[pod.name]['message']}" for pod in pods if says.get(pod.name, {}).get("message")]
        return Finding("True", CONNECTED, abridged(wrong, _SHOWN, "; "))
    if not told:
        return Finding("Unknown", "Pending", "no gateway has said yet how the peer is")
    reason, message = told[0]["reason"], str(told[0].get("message") or "")
    return Finding("False", reason, message or _REMEDIES.get(reason, ""))


_REMEDIES = {
    "PeerUnreachable": "nobody answers at spec.addresses: see the peer's Service and Deployment, and firewalls between",
    "CertificateRefused": "the peer shows a certificate of another CA than spec.ca: its Secret may have been replaced",
    "NotAdmitted": "the peer does not let this cluster in: see the GatewayPeer of this cluster there",
    "NotExposed": "the peer's gateways have no address from outside: give their Service one, or set gateway.address",
}
