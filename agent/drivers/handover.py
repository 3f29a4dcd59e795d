"""From mirrored endpoints or gateways to another driver: what the old one has written stays until the new one leads.

Each Service and pair of clusters is handed over by itself. Whether it is under way is seen from what is still there of
the old driver: a restart of the agent loses nothing.
"""

from enum import Enum, auto
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import GATEWAY_PEERS
from agent.api.names.links import BY_GATEWAY
from agent.drivers.driver import HERE
from agent.drivers.sharing import Sharing
from agent.kube.store import Key, Object
from agent.model.endpoints import is_mirror
from agent.model.gatewayhosts import leads_to_hosts, names_called
from agent.model.gatewaylink import leads_to
from agent.model.gatewaytold import read
from agent.model.links import REASONS
from agent.model.podranges import why_unreached

KEEP_SECONDS = 30.0
"""For how long at most what the old driver has written stays, whether the new one leads there or not."""
SETTLE_SECONDS = 3.0
"""Until kube-proxy, which gathers changes for a second, has taken in what the new driver has written."""
LOOK_SECONDS = 0.5
"""When to look again whether the new driver leads there."""


class Route(NamedTuple):
    """From callers in one cluster to a Service's endpoints in another; clusters are named by their virtual nodes."""

    consumer: str
    source: str
    service: Key


class HandoverStage(Enum):
    """What becomes of what the old driver has written."""

    KEEP = auto()
    """It stays as it is."""
    DRAIN = auto()
    """No new connection has to use it any more; those that do may go on."""
    REMOVE = auto()
    """It goes."""


class Handover:
    """Routes whose driver changes: since when, and since when the new driver leads there."""

    def __init__(self) -> None:
        self._began: dict[Route, float] = {}
        self._leads: dict[Route, float] = {}

    def stage(self, route: Route, now: float, *, new_leads: bool) -> HandoverStage:
        """How far the handover of a route is; begins one where there is none.

        :param new_leads: whether the new driver leads there
        """
        if route not in self._began:
            # Of Services that are no more, nobody tells the end.
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
        """Whether a handover from or to a cluster is under way, or has just ended."""
        under_way = (route for route, began in self._began.items() if now < began + KEEP_SECONDS + SETTLE_SECONDS)
        return any(node in (route.consumer, route.source) and route.service[0] == namespace for route in under_way)


def has_mirrors(sharing: Sharing, route: Route) -> bool:
    """Whether EndpointSlices lead to the source where the callers are: mirrors, or native ones with proxy pods."""
    if route.consumer == HERE and sharing.is_native(route.service):
        slices = (each.decode() for each in sharing.own_slices(HERE, route.service))
        return any(each.get("nodeName") == route.source for slice in slices for each in slice.get("endpoints") or ())
    found = (each for each in sharing.slices(route.consumer, route.service) if is_mirror(each.labels))
    return any(each.labels.get(names.LABEL_ORIGIN) == sharing.origin(route.source) for each in found)


def peer_of(sharing: Sharing, route: Route) -> Object | None:
    """The GatewayPeer that stands for the source where the callers are."""
    deps, mine = sharing.deps, names.children_of(sharing.deps.cluster_uid)
    target = deps.targets.by_node(route.consumer) if route.consumer != HERE else None
    key = (route.service[0], sharing.gateway_peer(route.source))
    if route.consumer == HERE and deps.settings.gateway:
        return deps.local.informer(GATEWAY_PEERS, labels=mine).store.get(key)
    # What tells of no gateways may not serve that kind either.
    if target is not None and target.told is not None and read(target.told.annotations) is not None:
        return target.informer(GATEWAY_PEERS, labels=mine).store.get(key)
    return None


def lists_service(peer: Object | None, name: str) -> bool:
    """Whether a GatewayPeer names a Service, headless or not, among those that gateways may call."""
    return peer is not None and name in names_called(peer.decode())


def follows(reason: str, old: str) -> bool:
    """Whether another driver, given by its reason, takes over from one; without any, or with `none`, nothing does."""
    return reason not in ("", old, REASONS["none"])


def leads_by_gateway(sharing: Sharing, route: Route) -> bool:
    """Whether gateways lead callers to the source; where the driver is another one, that is not asked."""
    peer = peer_of(sharing, route) if sharing.driver(*route) == BY_GATEWAY else None
    if peer is None:
        return False
    found, name = peer.decode(), route.service[1]
    return leads_to(found, name) or leads_to_hosts(found, name)


def may_stay(sharing: Sharing, route: Route) -> bool:
    """Whether the addresses of pods still lead to these pods: where they lead to others, mirrors go at once."""
    for said in (sharing.said(node) for node in (route.consumer, route.source) if node != HERE):
        if not said or why_unreached(said):
            return False
    return HERE in (route.consumer, route.source) or not sharing.overlap(route.consumer, route.source)
