"""From pods' addresses or gateways to another driver: what leads to another cluster stays until the new one does.

For each Service and pair of clusters, by what is still there of the old driver: nothing has to be remembered.
"""

from enum import Enum, auto
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import GATEWAY_PEERS
from agent.api.names.links import BY_GATEWAY, NOT_FLAT
from agent.drivers.driver import HERE
from agent.drivers.sharing import Sharing
from agent.kube.store import Key, Object
from agent.model.endpoints import is_mirror
from agent.model.flatness import NOT_REACHED
from agent.model.gatewaylink import leads_to
from agent.model.gatewaytold import read
from agent.model.links import REASONS

KEEP_SECONDS = 30.0
"""No longer than that, whether the new driver leads there or not."""
SETTLE_SECONDS = 3.0
"""Until kube-proxy, which gathers changes for a second, has taken in what leads there."""
LOOK_SECONDS = 0.5
"""When to look again whether the new driver leads there."""


class Way(NamedTuple):
    """From one cluster to the endpoints that a Service has in another one. Clusters are named as in `Sharing`."""

    consumer: str
    source: str
    service: Key


class Stage(Enum):
    """What becomes of what the old driver has made."""

    WHOLE = auto()
    """It stays as it is."""
    SPARE = auto()
    """Nobody has to be sent there any more; who is there may stay."""
    OVER = auto()


class Handover:
    """Ways that have another driver than before, since when, and since when the new one leads there."""

    def __init__(self) -> None:
        self._began: dict[Way, float] = {}
        self._leads: dict[Way, float] = {}

    def stage(self, way: Way, now: float, *, leads: bool) -> Stage:
        """How far it is.

        :param leads: whether the new driver leads there
        """
        if way not in self._began:
            # Of Services that are no more, nobody tells the end.
            for old in [each for each, began in self._began.items() if now > began + 2 * KEEP_SECONDS]:
                self.end(old)
        over = self._began.setdefault(way, now) + KEEP_SECONDS
        if now >= over:
            return Stage.OVER
        if not leads:
            self._leads.pop(way, None)
            return Stage.WHOLE if now < over - SETTLE_SECONDS else Stage.SPARE
        return Stage.SPARE if now >= self._leads.setdefault(way, now) + SETTLE_SECONDS else Stage.WHOLE

    def end(self, way: Way) -> None:
        """Nothing is left of the old driver, or it is wanted again."""
        self._began.pop(way, None)
        self._leads.pop(way, None)

    def concerns(self, node: str, namespace: str, now: float) -> bool:
        """Whether one is under way from or to a cluster, or has just ended."""
        under_way = (way for way, began in self._began.items() if now < began + KEEP_SECONDS + SETTLE_SECONDS)
        return any(node in (way.consumer, way.source) and way.service[0] == namespace for way in under_way)


def mirrored(sharing: Sharing, way: Way) -> bool:
    """Whether callers are told of the endpoints' addresses."""
    found = (each for each in sharing.slices(way.consumer, way.service) if is_mirror(each.labels))
    return any(each.labels.get(names.LABEL_ORIGIN) == sharing.origin(way.source) for each in found)


def peer_of(sharing: Sharing, way: Way) -> Object | None:
    """The GatewayPeer that stands for the source where the callers are."""
    deps, mine = sharing.deps, f"{names.LABEL_PARENT_CLUSTER_UID}={sharing.deps.cluster_uid}"
    target = deps.targets.by_node(way.consumer) if way.consumer != HERE else None
    key = (way.service[0], sharing.gateway_peer(way.source))
    if way.consumer == HERE and deps.settings.gateway:
        return deps.local.informer(GATEWAY_PEERS, labels=mine).store.get(key)
    # What tells of no gateways may not serve that kind either.
    if target is not None and target.summary is not None and read(target.summary.annotations) is not None:
        return target.informer(GATEWAY_PEERS, labels=mine).store.get(key)
    return None


def called(peer: Object | None, name: str) -> bool:
    """Whether gateways have been told to call a Service of a peer."""
    services = peer.decode()["spec"].get("services") or () if peer is not None else ()
    return any(each["name"] == name for each in services)


def follows(reason: str, old: str) -> bool:
    """Whether another driver, given by its reason, takes over from one; without any, or with `none`, nothing does."""
    return reason not in ("", old, REASONS["none"])


def led(sharing: Sharing, way: Way) -> bool:
    """Whether gateways lead there; where the driver is another one, which alone may know, that is not asked."""
    peer = peer_of(sharing, way) if sharing.driver(*way) == BY_GATEWAY else None
    return peer is not None and leads_to(peer.decode(), way.service[1])


def may_stay(sharing: Sharing, way: Way) -> bool:
    """Whether the addresses of pods still lead to these: to strangers nobody is sent for a moment longer."""
    for said in (sharing.said(node) for node in (way.consumer, way.source) if node != HERE):
        if not said or said.get("reason") in NOT_FLAT or NOT_REACHED in str(said.get("message", "")):
            return False
    return HERE in (way.consumer, way.source) or not sharing.overlap(way.consumer, way.source)
