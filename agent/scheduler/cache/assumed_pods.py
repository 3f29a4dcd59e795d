"""What of ours each target holds, kept from the proxies' store, and which pods are in flight.

A pod is in flight from the moment on that it is promised to a target until what the target tells of free room knows of
it, or for ten seconds: with a node its room is taken for good, and without one it takes none.

A summary says how many of our delegates it counts. Of the pods that a cluster holds, those are counted first that have
been counted before, then those in flight that are known to have a node, then the others, the oldest first. A target
that does not say so knows of a pod when its summary arrives a while after the delegate got its node.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from agent.clusters.chaperons import Chaperons
from agent.clusters.registry import Targets
from agent.clusters.target import Target
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.model.nodeshapes import counted
from agent.scheduler.cache.pod_info import PodInfos
from agent.scheduling.usage import Usages

SETTLED_SECONDS = 2.0
"""A summary that arrives so long after a delegate got its node knows of it: they are written at most once a second."""
FLIGHT_SECONDS = 10.0
_NAMESPACE = "namespace"
_LEFT_SECONDS = 0.2
"""Pods that end together wake those that wait once."""


class _Flight(NamedTuple):
    node: str
    until: float
    landed: float | None
    """When the delegate was known to have a node."""


class _Heard(NamedTuple):
    """What the latest summary of a target says."""

    cluster: str
    """UID of the summary: several Targets may lead to the same cluster."""
    counted: int | None
    """How many delegates of ours it counts, None where it does not say."""


class AssumedPods:
    """Keeps `usages`. `changed` is called when room may have become known that no event tells of."""

    def __init__(
        self,
        proxies: Informer,
        targets: Targets,
        chaperons: Chaperons,
        pod_infos: PodInfos,
        cluster_uid: str,
        changed: Callable[[], None],
        *,
        enabled: Callable[[str], bool] = lambda namespace: True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.usages = Usages()
        self._store = proxies.store
        self._chaperons = chaperons
        self._pod_infos = pod_infos
        self._cluster_uid = cluster_uid
        self._changed = changed
        self._enabled = enabled
        self._now = now
        self._assumed: dict[str, str] = {}
        self._bound: set[str] = set()
        self._idle: dict[str, str] = {}
        """Pods that have not got a node for so long that their flight has ended, and their virtual node."""
        self._early: dict[str, str] = {}
        """The same of pods that a target is taken to count, though they are not known to have a node."""
        self._heard: dict[str, _Heard] = {}
        self._flights: OrderedDict[str, _Flight] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        proxies.store.index(_NAMESPACE, lambda pod: (pod.namespace,))
        proxies.subscribe(self._proxy_changed)
        chaperons.subscribe(self._chaperon_changed)
        targets.on_attach(self._attached)

    @property
    def in_flight(self) -> int:
        """How many pods are."""
        return len(self._flights)

    def assume(self, pod: Object, node: str) -> None:
        """A pod is about to be promised to a target: others count it from now on."""
        self._assumed[pod.uid] = node
        self._place(pod, node, bound=False, seen_before=True)

    def look_again(self, namespace: str) -> None:
        """A namespace has become enabled, or is no more."""
        for pod in self._store.by_index(_NAMESPACE, namespace):
            self._see(None, pod)

    def retract(self, pod: Object) -> None:
        """The promise was made, or came to nothing: the store counts again."""
        self._assumed.pop(pod.uid, None)
        current = self._store.get(pod.key)
        if current is not None and current.uid == pod.uid:
            self._see(None, current)
        else:
            self._forget(pod.uid)

    def refresh(self) -> None:
        """End the flights that are over; call it before ranking."""
        now = self._now()
        while self._flights:
            uid, flight = next(iter(self._flights.items()))
            if flight.until > now:
                break
            self._land(uid)
            if uid not in self._bound:
                self._idle[uid] = flight.node

    def _proxy_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._pod_infos.forget(old.uid)
            self._assumed.pop(old.uid, None)
            self._forget(old.uid)
        if new is not None:
            self._see(old if old is not None and old.uid == new.uid else None, new)

    def _see(self, old: Object | None, pod: Object) -> None:
        place = podstate.occupied_node(pod)
        if not pod.node_name and pod.phase not in podstate.ENDED:
            place = self._assumed.get(pod.uid, place)
        if place and self._counts(pod, place):
            self._place(pod, place, bound=bool(pod.node_name), seen_before=old is not None)
        else:
            self._forget(pod.uid)

    def _place(self, pod: Object, node: str, *, bound: bool, seen_before: bool) -> None:
        uid = pod.uid
        placed = self.usages.get(uid)
        pod_info = self._pod_infos.about(pod)
        if placed is None or placed.node != node:
            self._forget(uid)
            # A pod that had its node before we came is in what its target tells.
            arrives = seen_before or not bound
            undelegated = not bound and not self._is_born(pod, node)
            self.usages.put(pod_info, node, assumed=arrives, undelegated=undelegated, deleting=pod.deleting)
            if arrives:
                self._fly(uid, node, landed=None)
            else:
                self._bound.add(uid)
        elif placed.pod is not pod_info or placed.deleting != pod.deleting:
            self.usages.put(pod_info, node, deleting=pod.deleting)
        if bound and uid not in self._bound:
            self._bound.add(uid)
            self.usages.of(node).delegated(uid)
            self._landed(uid, node)

    def _landed(self, uid: str, node: str) -> None:
        """The delegate has got a node. If its target counts it already, the pod is not in flight any more."""
        self._early.pop(uid, None)
        late = self._idle.pop(uid, None) is not None
        if late:
            self.usages.of(node).assume(uid)
        if late or uid in self._flights:
            self._fly(uid, node, landed=self._now())
        if late and node in self._heard:
            self._land_counted(self._heard[node])

    def _fly(self, uid: str, node: str, *, landed: float | None) -> None:
        self._flights.pop(uid, None)
        self._flights[uid] = _Flight(node, self._now() + FLIGHT_SECONDS, landed)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLIGHT_SECONDS, self._due)

    def _land(self, uid: str) -> None:
        flight = self._flights.pop(uid)
        self.usages.of(flight.node).confirm(uid)

    def _due(self) -> None:
        self._timer = None
        before = len(self._flights)
        self.refresh()
        if self._flights:
            delay = next(iter(self._flights.values())).until - self._now()
            self._timer = asyncio.get_running_loop().call_later(max(0.1, delay), self._due)
        if len(self._flights) < before:
            self._changed()

    def _forget(self, uid: str) -> None:
        self._flights.pop(uid, None)
        self._idle.pop(uid, None)
        self._early.pop(uid, None)
        self._bound.discard(uid)
        if self.usages.get(uid) is not None:
            self.usages.remove(uid)
            if self._leaving is None:
                self._leaving = asyncio.get_running_loop().call_later(_LEFT_SECONDS, self._left)

    def _left(self) -> None:
        """Pods have gone. Limits, spread and affinity to pods depend on what we hold, which no summary tells."""
        self._leaving = None
        self._changed()

    def _attached(self, target: Target) -> None:
        node = target.node_name
        target.summaries.subscribe(lambda old, new: self._told(node, target.summary))

    def _told(self, node: str, summary: Object | None) -> None:
        """A target has told anew what is free."""
        if summary is None:
            self._heard.pop(node, None)
            return
        heard = self._heard[node] = _Heard(summary.uid, counted(summary.annotations, self._cluster_uid))
        if heard.counted is None:
            self._land_settled(node)
        else:
            self._land_counted(heard)

    def _land_counted(self, heard: _Heard) -> None:
        nodes = {node for node, other in self._heard.items() if other.cluster == heard.cluster}
        held = [self.usages.of(node) for node in nodes]
        idle = sum(node in nodes for node in self._idle.values())
        known = sum(len(usage.pods) - len(usage.assumed) for usage in held) - idle
        news = (heard.counted or 0) - known
        flights = [(uid, flight) for uid, flight in self._flights.items() if flight.node in nodes]
        flights.sort(key=lambda item: item[1].landed is None)
        for uid, flight in flights[: max(0, news)]:
            self._land(uid)
            if flight.landed is None:
                self._early[uid] = flight.node
        wrong = [uid for uid, node in self._early.items() if node in nodes][news:] if news < 0 else []
        for uid in wrong:
            node = self._early.pop(uid)
            self.usages.of(node).assume(uid)
            self._fly(uid, node, landed=None)

    def _land_settled(self, node: str) -> None:
        latest = self._now() - SETTLED_SECONDS
        over = [
            uid
            for uid, flight in self._flights.items()
            if flight.node == node and flight.landed is not None and flight.landed <= latest
        ]
        for uid in over:
            self._land(uid)

    def _chaperon_changed(self, parent: Key) -> None:
        pod = self._store.get(parent)
        placed = self.usages.get(pod.uid) if pod is not None else None
        if pod is None:
            return
        if placed is None:
            if not self._enabled(pod.namespace):
                self._see(None, pod)
            return
        usage = self.usages.of(placed.node)
        if pod.uid in usage.undelegated and self._is_born(pod, placed.node):
            usage.delegated(pod.uid)

    def _counts(self, pod: Object, node: str) -> bool:
        """Whether a pod takes room there: where its namespace is not enabled, what it says of that is not believed."""
        return self._enabled(pod.namespace) or pod.uid in self._assumed or bool(self._placed(pod, node))

    def _is_born(self, pod: Object, node: str) -> bool:
        """Whether the pod's chaperon there says anything of a delegate."""
        return any(chaperon.phase for chaperon in self._placed(pod, node))

    def _placed(self, pod: Object, node: str) -> list[Object]:
        return [
            each.chaperon for each in self._chaperons.of(pod.key) if each.target.node_name == node and each.is_of(pod)
        ]
