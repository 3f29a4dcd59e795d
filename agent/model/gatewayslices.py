"""EndpointSlices that send callers of other clusters' Services to a cluster's own gateways.

kube-proxy gives all endpoints the same weight and identifies them by address and port. A Service with many pods in the
other cluster therefore has several ports at each gateway. Pure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_PEER
from agent.model.abridged import abridged
from agent.model.gatewaylink import called, locals_of
from agent.model.gatewaypeer import TCP, Protocol
from agent.model.servicelinks import CONNECTED, Finding

Raw = dict[str, Any]
WEIGHT_LIMIT = 8
"""Maximum number of endpoints at one gateway pod for one Service of a peer."""
_SHOWN = 2


class Pod(NamedTuple):
    """A pod of the own gateways."""

    name: str
    address: str
    ready: bool = True


def weight(ready: int, gateways: int) -> int:
    """Return the number of endpoints that a Service has at each gateway pod, 1 to WEIGHT_LIMIT.

    :param ready: number of its ready pods in the other cluster
    :param gateways: number of gateway pods
    """
    return min(WEIGHT_LIMIT, max(1, -(-ready // max(gateways, 1))))


def slices(peer: Mapping[str, Any], pods: Sequence[Pod], family: str, services: Collection[str]) -> list[Raw]:
    """Return the EndpointSlices that route calls of a peer's Services to this cluster's gateways.

    A gateway's endpoint is ready if the gateway reports that it listens at the ports and that the peer answers it. UDP
    ports have separate slices, since a peer may accept only TCP.

    :param family: address type of the gateways' own slices
    :param services: names of Services whose traffic may be routed to the peer
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
    """Return slice `number` of a Service, counted from 0: `service` has its name and the ready endpoints there."""
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
    """Return the owner reference to a GatewayPeer."""
    metadata = peer["metadata"]
    head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name, "controller": True}
    return {**head, "name": metadata["name"], "uid": metadata["uid"]}


def _reaches(says: Mapping[str, Any] | None, ports: Iterable[int]) -> bool:
    return says is not None and bool(says.get("healthy")) and set(ports) <= set(says.get("listens") or ())


def connected(peer: Mapping[str, Any], pods: Sequence[Pod]) -> Finding:
    """Return the finding whether a peer answers any of this cluster's gateways."""
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
