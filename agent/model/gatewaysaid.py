"""What GatewayPeers say of the Services that are called through them, as links tell it. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.api.conditions import find_condition
from agent.model import gatewayhosts
from agent.model.gatewayhosts import HEADLESS, SWITCH_ON
from agent.model.gatewaylink import NO_PORT, called, locals_of
from agent.model.gatewaypeer import UDP
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding

UNTOLD = Finding(
    "Unknown",
    "Pending",
    "its hosts have not been told yet; where that stays so, the CRD of GatewayPeers is older than this agent in one of"
    " the clusters: upgrade the chart there",
)


def changed(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> set[str]:
    """Services of which a GatewayPeer says something else than before, None where there is none.

    With every Service that is shared all of a namespace's GatewayPeers change, and nothing is new of the others.
    """
    before, after = _said(old), _said(new)
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _said(peer: Mapping[str, Any] | None) -> dict[str, object]:
    if peer is None:
        return {}
    udp, hosts, some = udp_taken(peer), unreached(peer), _allotted(peer)
    of_some, answer = (_answers(peer, allotted=each) for each in (True, False))
    return {
        name: (of_some if name in some else answer, udp.get(name), hosts.get(name, UNTOLD))
        for name in gatewayhosts.names_called(peer)
    }


def answers(peer: Mapping[str, Any], service: str = "") -> Finding:
    """Whether the gateways of a peer are reached from the cluster that its GatewayPeer is in.

    :param service: for callers of this Service: others may have no local ports
    """
    return _answers(peer, allotted=service in _allotted(peer))


def _allotted(peer: Mapping[str, Any]) -> set[str]:
    """Return Services with local ports for all of their ports, or hosts; none unless other Services lack them."""
    said = find_condition((peer.get("status") or {}).get("conditions"), PROGRAMMED) or {}
    if said.get("reason") != NO_PORT:
        return set()
    found = locals_of(peer)
    lacking = {
        each["name"]
        for protocol, each in called(peer)
        if any(not found.get((each["name"], port["port"], protocol)) for port in each["ports"])
    }
    hosts = {name for name, why in unreached(peer).items() if why is None}
    return {each["name"] for _, each in called(peer)} - lacking | hosts


def _answers(peer: Mapping[str, Any], *, allotted: bool) -> Finding:
    conditions = (peer.get("status") or {}).get("conditions")
    for type in (PROGRAMMED, CONNECTED):
        said = find_condition(conditions, type)
        if allotted and type == PROGRAMMED:
            continue
        if said is None:
            return Finding("Unknown", "Pending", "the agent of the callers has not said yet how its gateways are")
        if said["status"] != "True":
            return Finding(said["status"], said["reason"], said["message"])
    return Finding("True", CONNECTED, "its gateways answer")


def udp_taken(peer: Mapping[str, Any]) -> dict[str, bool]:
    """Whether a gateway has said that a peer takes the UDP ports of a Service, for each that has any."""
    wanted: dict[str, set[int]] = {each["name"]: set() for protocol, each in called(peer) if protocol == UDP}
    for (service, _, protocol), found in locals_of(peer).items():
        if protocol == UDP and service in wanted:
            wanted[service].update(found)
    says = ((peer.get("status") or {}).get("gateways") or {}).values()
    listens = [set(each.get("listens") or ()) for each in says]
    return {name: bool(ports) and any(ports <= each for each in listens) for name, ports in wanted.items()}


def unreached(peer: Mapping[str, Any]) -> dict[str, Finding | None]:
    """Why callers do not reach the hosts of a headless Service, None where each has an address; of each that has hosts.

    Of a Service that is not there it has not been told yet: `UNTOLD`.
    """
    status = peer.get("status") or {}
    made = {(each["name"], each["host"]) for each in status.get(HEADLESS) or ()}
    wanted: dict[str, set[tuple[str, str]]] = {}
    for each in gatewayhosts.told(peer):
        wanted.setdefault(each.service, set()).update((each.service, host.name) for host in each.hosts)
    said = (find_condition(status.get("conditions"), PROGRAMMED) or {}).get("message")
    why = Finding("False", "NoService", said or f"its hosts have no Services there: {SWITCH_ON} there")
    return {service: None if hosts <= made else why for service, hosts in wanted.items() if hosts}
