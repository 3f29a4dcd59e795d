"""Handover from mirrors or gateways to another driver: old objects stay until the new driver routes traffic.

Each Service and pair of clusters is handed over separately. The remaining objects of the old driver show that a
handover is in progress, so a restart of the agent loses nothing.
"""

from enum import Enum, auto
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import GATEWAY_PEERS
from agent.api.names.links import BY_GATEWAY
from agent.drivers.driver import LOCAL
from agent.drivers.sharing import Sharing
from agent.kube.store import Key, Object
from agent.model.endpoints import is_mirror
from agent.model.gatewayhosts import leads_to_hosts, names_called
from agent.model.gatewaylink import leads_to
from agent.model.gatewaytold import read
from agent.model.links import REASONS
from agent.model.podranges import why_unreached

KEEP_SECONDS = 30.0
"""Seconds that objects of the old driver stay at most, even if the new driver does not route traffic yet."""
SETTLE_SECONDS = 3.0
"""Until kube-proxy, which gathers changes for a second, has taken in what the new driver has written."""
LOOK_SECONDS = 0.5
"""Seconds between checks whether the new driver routes traffic."""


class Route(NamedTuple):
    """From callers in one cluster to a Service's endpoints in another; clusters are named by their virtual nodes."""

    consumer: str
    source: str
    service: Key


class HandoverStage(Enum):
    """Treatment of the objects of the old driver."""

    KEEP = auto()
    """They stay unchanged."""
    DRAIN = auto()
    """New connections no longer need them; open connections may still use them."""
    REMOVE = auto()
    """They are deleted."""


class Handover:
    """Routes whose driver changes, with the times when the handover began and when the new driver began to work."""

    def __init__(self) -> None:
        self._began: dict[Route, float] = {}
        self._leads: dict[Route, float] = {}

    def stage(self, route: Route, now: float, *, new_leads: bool) -> HandoverStage:
        """Return the stage of a route's handover; begins a handover if there is none.

        :param new_leads: whether the new driver routes traffic to the source
        """
        if route not in self._began:
            # No event ends the handover of a deleted Service.
            for old in [each for each, began in self._began.items() if now > began + 2 * KEEP_SECONDS]:
                self.end(old)
        over = self._began.setdefault(route, now) + KEEP_SECONDS
        if now >= over:
            return HandoverStage.REMOVE
        if not new_leads:
            self._leads.pop(route, None)
            return HandoverStage.KEEP if now < over - SETTLE_SECONDS else HandoverStage.DRAIN
        return HandoverStage.DRAIN if now >= self._leads.setdefault(route, now) + SETTLE_SECONDS else HandoverStage.KEEP

    def end(self, route: Route) -> None:
        """Forget a handover: nothing is left of the old driver, or it is wanted again."""
        self._began.pop(route, None)
        self._leads.pop(route, None)

    def concerns(self, node: str, namespace: str, now: float) -> bool:
        """Return whether a handover from or to a cluster is in progress or has just ended."""
        under_way = (route for route, began in self._began.items() if now < began + KEEP_SECONDS + SETTLE_SECONDS)
        return any(node in (route.consumer, route.source) and route.service[0] == namespace for route in under_way)


def has_mirrors(sharing: Sharing, route: Route) -> bool:
    """Return whether the consumer has EndpointSlices of the source: mirrors, or native slices with proxy pods."""
    if route.consumer == LOCAL and sharing.is_native(route.service):
        slices = (each.decode() for each in sharing.own_slices(LOCAL, route.service))
        return any(each.get("nodeName") == route.source for slice in slices for each in slice.get("endpoints") or ())
    found = (each for each in sharing.slices(route.consumer, route.service) if is_mirror(each.labels))
    return any(each.labels.get(names.LABEL_ORIGIN) == sharing.origin(route.source) for each in found)


def peer_of(sharing: Sharing, route: Route) -> Object | None:
    """Return the GatewayPeer that represents the source in the consumer's cluster."""
    deps, mine = sharing.deps, names.children_of(sharing.deps.cluster_uid)
    target = deps.targets.by_node(route.consumer) if route.consumer != LOCAL else None
    key = (route.service[0], sharing.gateway_peer(route.source))
    if route.consumer == LOCAL and deps.settings.gateway:
        return deps.local.informer(GATEWAY_PEERS, labels=mine).store.get(key)
    # A cluster that publishes no gateways may not serve GatewayPeers either.
    if target is not None and target.told is not None and read(target.told.annotations) is not None:
        return target.informer(GATEWAY_PEERS, labels=mine).store.get(key)
    return None


def lists_service(peer: Object | None, name: str) -> bool:
    """Return whether a GatewayPeer lists a Service, headless or not, as callable by gateways."""
    return peer is not None and name in names_called(peer.decode())


def follows(reason: str, old: str) -> bool:
    """Return whether the driver with this reason takes over from another one; False for no driver and for `none`."""
    return reason not in ("", old, REASONS["none"])


def leads_by_gateway(sharing: Sharing, route: Route) -> bool:
    """Return whether gateways route callers to the source; False if the route has another driver."""
    peer = peer_of(sharing, route) if sharing.driver(*route) == BY_GATEWAY else None
    if peer is None:
        return False
    found, name = peer.decode(), route.service[1]
    return leads_to(found, name) or leads_to_hosts(found, name)


def may_stay(sharing: Sharing, route: Route) -> bool:
    """Return whether addresses of pods still belong to these pods. Otherwise mirrors are deleted at once."""
    for said in (sharing.said(node) for node in (route.consumer, route.source) if node != LOCAL):
        if not said or why_unreached(said):
            return False
    return LOCAL in (route.consumer, route.source) or not sharing.overlap(route.consumer, route.source)
