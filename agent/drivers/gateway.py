"""Driver `gateway`: Services reach other clusters through gateways, where pods do not reach each other."""

from typing import ClassVar

from agent.api.conditions import find_condition
from agent.api.kinds import GATEWAY_PEERS
from agent.api.names.links import BY_GATEWAY
from agent.clusters.rights import missing, words
from agent.clusters.target import Target
from agent.drivers.driver import HERE, Pair, Place
from agent.drivers.handover import Route, peer_of
from agent.drivers.nothing import Nothing
from agent.drivers.sharing import Sharing
from agent.model.gatewayhosts import SWITCH_ON, UNTOLD, unreached
from agent.model.gatewaytold import read
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding

VERBS = ("list", "watch", "create", "patch", "delete")


class Gateway(Nothing):
    """GatewayPeers say what gateways do; those are about whole namespaces, and a room of their own writes them."""

    name: ClassVar[str] = "gateway"
    reason: ClassVar[str] = BY_GATEWAY

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    def detect(self, pair: Pair) -> bool:
        """Whether both clusters tell of gateways."""
        return pair.gateways

    async def status(self, target: Target) -> str:
        """Whether the target lets us write GatewayPeers."""
        return words(target, GATEWAY_PEERS, await missing(target, GATEWAY_PEERS, VERBS))

    def _has_gateway(self, node: str) -> bool:
        """Whether a cluster has gateways, as far as is known."""
        if node == HERE:
            return self._sharing.deps.settings.gateway
        target = self._sharing.deps.targets.by_node(node)
        return target is None or target.summary is None or read(target.summary.annotations) is not None

    async def connected(self, place: Place) -> Finding:
        """Asked for each cluster by `between`."""
        return Finding("Unknown", "Pending", "it is asked for each pair of clusters")

    def between(self, place: Place, source: str) -> Finding:
        """Whether the gateways of one cluster reach those of another one, as its GatewayPeer there says."""
        if place.node != HERE and self._sharing.deps.targets.by_node(place.node) is None:
            return Finding("Unknown", "TargetUnreachable", "it is not connected")
        peer = peer_of(self._sharing, Route(place.node, source, place.service))
        if lacking := [node for node in (place.node, source) if not self._has_gateway(node)]:
            who = self._sharing.called(lacking[0])[-1]
            return Finding("False", "NoGateway", f"{who} has no gateway: install the chart there with gateway.enabled")
        headless = self._is_headless(place)
        if headless and not self._sharing.deps.settings.gateway_headless:
            return Finding("False", "NoService", f"it is headless: {SWITCH_ON} here and where its callers are")
        if peer is None:
            return UNTOLD if headless else Finding("Unknown", "Pending", "its gateways have not been told yet")
        conditions = (peer.decode().get("status") or {}).get("conditions")
        for type in (PROGRAMMED, CONNECTED):
            said = find_condition(conditions, type)
            if said is None:
                return Finding("Unknown", "Pending", "the agent there has not said yet how its gateways are")
            if said["status"] != "True":
                return Finding(said["status"], said["reason"], said["message"])
        lacking_hosts = unreached(peer.decode(), place.service[1]) if headless else None
        return lacking_hosts or Finding("True", CONNECTED, "its gateways answer")

    def _is_headless(self, place: Place) -> bool:
        original = self._sharing.services.store.get(place.service)
        return original is not None and original.decode()["spec"].get("clusterIP") == "None"
