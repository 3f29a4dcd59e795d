"""Findings for ServiceLinks from the status of GatewayPeers. Pure."""

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
    """Return the Services whose findings differ between two states of a GatewayPeer.

    Each newly shared Service changes all GatewayPeers of its namespace, but not the findings about other Services.

    :param old: None if the GatewayPeer did not exist before
    :param new: None if it has been deleted
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
    """Return the finding whether gateways of the GatewayPeer's cluster reach the peer.

    :param service: Service to call, since only some Services may have local ports; empty for the peer in general
    """
    return _answers(peer, allotted=service in _allotted(peer))


def _allotted(peer: Mapping[str, Any]) -> set[str]:
    """Return Services with local ports for all of their ports or hosts; none unless other Services lack local ports."""
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
    """Return, for each Service with UDP ports, whether a gateway reports that the peer accepts all of them."""
    wanted: dict[str, set[int]] = {each["name"]: set() for protocol, each in called(peer) if protocol == UDP}
    for (service, _, protocol), found in locals_of(peer).items():
        if protocol == UDP and service in wanted:
            wanted[service].update(found)
    says = ((peer.get("status") or {}).get("gateways") or {}).values()
    listens = [set(each.get("listens") or ()) for each in says]
    return {name: bool(ports) and any(ports <= each for each in listens) for name, ports in wanted.items()}


def unreached(peer: Mapping[str, Any]) -> dict[str, Finding | None]:
    """Return why callers do not reach the hosts of each headless Service; None if each host has a Service.

    Services without hosts in the GatewayPeer are missing; their finding is `UNTOLD`.
    """
    status = peer.get("status") or {}
    made = {(each["name"], each["host"]) for each in status.get(HEADLESS) or ()}
    wanted: dict[str, set[tuple[str, str]]] = {}
    for each in gatewayhosts.told(peer):
        wanted.setdefault(each.service, set()).update((each.service, host.name) for host in each.hosts)
    said = (find_condition(status.get("conditions"), PROGRAMMED) or {}).get("message")
    why = Finding("False", "NoService", said or f"its hosts have no Services there: {SWITCH_ON} there")
    return {service: None if hosts <= made else why for service, hosts in wanted.items() if hosts}
