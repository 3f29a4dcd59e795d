"""Driver `gateway`: Services reach other clusters through gateways, where pods do not reach each other."""

from collections.abc import Mapping
from typing import Any, ClassVar

from agent.api.kinds import GATEWAY_PEERS
from agent.api.names.links import BY_GATEWAY, PEER_SERVICES_LIMIT
from agent.clusters.rights import missing, words
from agent.clusters.target import Target
from agent.drivers.driver import LOCAL, Pair, Place
from agent.drivers.handover import Route, lists_service, peer_of
from agent.drivers.none_and_external import Nothing
from agent.drivers.sharing import Sharing
from agent.model.gatewayhosts import SWITCH_ON
from agent.model.gatewaylink import NO_PORT, ports_of
from agent.model.gatewaypeer import TCP, UDP
from agent.model.gatewaysaid import UNTOLD, answers, udp_taken, unreached
from agent.model.gatewaytold import flaw, usable
from agent.model.peersize import is_full
from agent.model.service import is_headless
from agent.model.servicelinks import CONNECTED, Finding

_SCTP = "SCTP"
_SCTP_REMEDY = "offer the Service by TCP, or route pod networks between the clusters"
VERBS = ("list", "watch", "create", "patch", "delete")


class Gateway(Nothing):
    """Uses GatewayPeers, which describe whole namespaces. A separate controller writes them."""

    name: ClassVar[str] = "gateway"
    reason: ClassVar[str] = BY_GATEWAY
    tells_sources: ClassVar[bool] = True

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    def detect(self, pair: Pair) -> bool:
        """Return whether both clusters publish gateways."""
        return pair.gateways

    async def status(self, target: Target) -> str:
        """Return the problem if the target denies writing GatewayPeers; else empty."""
        return words(target, GATEWAY_PEERS, await missing(target, GATEWAY_PEERS, VERBS))

    def _has_gateway(self, node: str) -> bool:
        """Return whether a cluster has gateways; True if that is not known yet."""
        if node == LOCAL:
            return self._sharing.deps.settings.gateway
        target = self._sharing.deps.targets.by_node(node)
        if target is None or target.told is None:
            return True
        return usable(target.told.annotations)

    def _flaw(self, node: str) -> str:
        """Return the error in the gateway data that a target publishes; empty if there is none."""
        target = self._sharing.deps.targets.by_node(node) if node != LOCAL else None
        summary = target.told if target is not None else None
        return flaw(summary.annotations) if summary is not None else ""

    async def connected(self, place: Place, source: str) -> Finding:
        """Return whether a cluster's gateways reach those of the source, from its GatewayPeer."""
        if place.node != LOCAL and self._sharing.deps.targets.by_node(place.node) is None:
            return Finding("Unknown", "TargetUnreachable", "it is not connected")
        peer = peer_of(self._sharing, Route(place.node, source, place.service))
        if lacking := [node for node in (place.node, source) if not self._has_gateway(node)]:
            who = self._sharing.called(lacking[0])[-1]
            if wrong := self._flaw(lacking[0]):
                return Finding("False", "NoGateway", f"what {who} tells of its gateways cannot be used: {wrong}")
            return Finding("False", "NoGateway", f"{who} has no gateway: install the chart there with gateway.enabled")
        spec = self._spec(place)
        if (headless := is_headless(spec)) and not self._sharing.deps.settings.gateway_headless:
            return Finding("False", "NoService", f"it is headless: {SWITCH_ON} here and where its callers are")
        tcp, udp = bool(ports_of(spec, TCP)), bool(ports_of(spec, UDP))
        takes_udp = self._sharing.deps.settings.gateway_udp
        if refused := refused_ports(spec, udp=takes_udp):
            return Finding("False", NO_PORT, refused)
        if peer is None:
            return UNTOLD if headless else Finding("Unknown", "Pending", "its gateways have not been told yet")
        if is_full(peer.decode()) and not lists_service(peer, place.service[1]):
            most = f"GatewayPeer {peer.namespace}/{peer.name} names {PEER_SERVICES_LIMIT} Services, which is the most"
            return Finding("False", NO_PORT, f"{most}: share fewer Services of namespace {peer.namespace} by gateways")
        if (said := answers(peer.decode(), place.service[1])).status != "True":
            return said
        if headless:
            return unreached(peer.decode()).get(place.service[1], UNTOLD) or said
        if (left_out := left_out_ports(spec, udp=takes_udp)) and not (udp and takes_udp):
            return Finding("True", CONNECTED, f"its gateways answer; {left_out}")
        taken = udp_taken(peer.decode()).get(place.service[1]) if udp else True
        return _by_udp(taken, alone=udp and not tcp)

    def _spec(self, place: Place) -> dict[str, Any]:
        original = self._sharing.services.store.get(self._sharing.original(place.service))
        return original.decode()["spec"] if original is not None else {}


def refused_ports(spec: Mapping[str, Any], *, udp: bool) -> str:
    """Return why gateways take none of a Service's ports; empty if they take one, or if it has none.

    :param udp: whether gateways take UDP
    """
    found = _protocols(spec)
    if not found or found & ({TCP, UDP} if udp else {TCP}):
        return ""
    if found == {UDP}:
        return "all its ports are UDP, which gateways leave out without --gateway-udp"
    if found == {_SCTP}:
        return f"all its ports are SCTP, which gateways do not take: {_SCTP_REMEDY}"
    return (
        "its ports are UDP, which gateways leave out without --gateway-udp, and SCTP, which gateways do not take:"
        f" {_SCTP_REMEDY}"
    )


def left_out_ports(spec: Mapping[str, Any], *, udp: bool) -> str:
    """Return which ports of a Service gateways leave out; empty if they take all.

    :param udp: whether gateways take UDP
    """
    found = _protocols(spec)
    texts = ["UDP ports are left out without --gateway-udp"] if UDP in found and not udp else []
    texts += ["SCTP ports are left out"] if _SCTP in found else []
    return " and ".join(texts)


def _protocols(spec: Mapping[str, Any]) -> set[str]:
    return {each.get("protocol", TCP) for each in spec.get("ports") or ()}


def _by_udp(taken: bool | None, *, alone: bool) -> Finding:
    """Return the finding about UDP for gateways that answer.

    :param taken: whether the gateways accept UDP ports; None if not known yet
    :param alone: whether the Service has only UDP ports
    """
    untaken = "do not take its UDP ports: they may be older"
    if not alone:
        return Finding("True", CONNECTED, "its gateways answer" + (f"; they {untaken}" if taken is False else ""))
    if taken is None:
        lasts = "where that lasts, the CRD of GatewayPeers there is older"
        return Finding("Unknown", "Pending", f"its gateways have not been told of UDP ports yet: {lasts}")
    return (
        Finding("True", CONNECTED, "its gateways answer")
        if taken
        else Finding("False", "NotAdmitted", f"its gateways {untaken}")
    )
