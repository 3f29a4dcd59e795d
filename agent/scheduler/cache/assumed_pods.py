"""Assumed pods: pods of this source in each target, and which of them its reported capacity does not include yet.

A pod is assumed from its claim until the target's summary includes it, or for ten seconds. A pod without a node after
that time takes no capacity; it is assumed again when it gets one.

A summary reports how many of our delegates it includes. It is matched first with pods already confirmed, then with
assumed pods known to have a node, then with the others, oldest first. If a target does not report the number, its
summary includes a pod once it arrives a while after the delegate got its node.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Target
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.model.nodeshapes import read_counted
from agent.ranking.usage import Usages
from agent.scheduler.cache.pod_info import PodInfos

SETTLED_SECONDS = 2.0
"""A summary that arrives this long after a delegate got its node includes it: agents write at most one per second."""
ASSUMED_SECONDS = 10.0
_NAMESPACE = "namespace"
_LEFT_SECONDS = 0.2
"""Debounce in seconds: pods that end together wake the waiting pods once."""


class _Assumed(NamedTuple):
    node: str
    until: float
    placed_at: float | None
    """When the delegate was seen with a node; None if it has not been."""


class _Count(NamedTuple):
    """Number of our pods that the latest summary of a target includes."""

    cluster: str
    """UID of the summary: several Targets may point to the same cluster."""
    counted: int | None
    """Number of our delegates that it includes; None if not reported."""


class AssumedPods:
    """Maintains `usages`. Calls `changed` when capacity may have become free without another event."""

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
        self._claiming: dict[str, str] = {}
        self._bound: set[str] = set()
        self._expired: dict[str, str] = {}
        """Virtual node of each pod whose assumption expired before it got a node, by UID."""
        self._counted_early: dict[str, str] = {}
        """Virtual node of each pod that is taken as included in a summary without being known to have a node, by UID.
        """
        self._counts: dict[str, _Count] = {}
        self._assumed: OrderedDict[str, _Assumed] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._leave_timer: asyncio.TimerHandle | None = None
        proxies.store.index(_NAMESPACE, lambda pod: (pod.namespace,))
        proxies.subscribe(self._proxy_changed)
        chaperons.subscribe(self._chaperon_changed)
        targets.on_attach(self._attached)

    @property
    def number(self) -> int:
        """Number of assumed pods."""
        return len(self._assumed)

    def assume(self, pod: Object, node: str) -> None:
        """Count a pod that is about to be claimed for a target in its usage."""
        self._claiming[pod.uid] = node
        self._place(pod, node, bound=False, seen_before=True)

    def namespace_turned(self, namespace: str) -> None:
        """Re-evaluate all pods of a namespace that has been enabled or disabled."""
        for pod in self._store.by_index(_NAMESPACE, namespace):
            self._update(None, pod)

    def finish_claim(self, pod: Object) -> None:
        """End a claim, whether written or failed: the store is authoritative from now on."""
        self._claiming.pop(pod.uid, None)
        current = self._store.get(pod.key)
        if current is not None and current.uid == pod.uid:
            self._update(None, current)
        else:
            self._forget(pod.uid)

    def refresh(self) -> None:
        """Expire assumptions whose time is over. Call it before ranking."""
        now = self._now()
        while self._assumed:
            uid, pod = next(iter(self._assumed.items()))
            if pod.until > now:
                break
            self._confirm(uid)
            if uid not in self._bound:
                self._expired[uid] = pod.node

    def _proxy_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._pod_infos.forget(old.uid)
            self._claiming.pop(old.uid, None)
            self._forget(old.uid)
        if new is not None:
            self._update(old if old is not None and old.uid == new.uid else None, new)

    def _update(self, old: Object | None, pod: Object) -> None:
        node = podstate.occupied_node(pod)
        if not pod.node_name and pod.phase not in podstate.ENDED:
            node = self._claiming.get(pod.uid, node)
        if node and self._takes_room(pod, node):
            self._place(pod, node, bound=bool(pod.node_name), seen_before=old is not None)
        else:
            self._forget(pod.uid)

    def _place(self, pod: Object, node: str, *, bound: bool, seen_before: bool) -> None:
        uid = pod.uid
        placed = self.usages.get(uid)
        pod_info = self._pod_infos.about(pod)
        if placed is None or placed.node != node:
            self._forget(uid)
            # A pod that was bound before the agent started is already in the target's summary.
            is_new = seen_before or not bound
            undelegated = not bound and not self._has_delegate(pod, node)
            self.usages.put(pod_info, node, assumed=is_new, undelegated=undelegated, deleting=pod.deleting)
            if is_new:
                self._set_assumed(uid, node, placed_at=None)
            else:
                self._bound.add(uid)
        elif placed.pod is not pod_info or placed.deleting != pod.deleting:
            self.usages.put(pod_info, node, deleting=pod.deleting)
        if bound and uid not in self._bound:
            self._bound.add(uid)
            self.usages.of(node).delegated(uid)
            self._delegate_placed(uid, node)

    def _delegate_placed(self, uid: str, node: str) -> None:
        """Record that the delegate has got a node. If its target already counts it, confirm the pod."""
        self._counted_early.pop(uid, None)
        late = self._expired.pop(uid, None) is not None
        if late:
            self.usages.of(node).assume(uid)
        if late or uid in self._assumed:
            self._set_assumed(uid, node, placed_at=self._now())
        if late and node in self._counts:
            self._confirm_counted(self._counts[node])

    def _set_assumed(self, uid: str, node: str, *, placed_at: float | None) -> None:
        self._assumed.pop(uid, None)
        self._assumed[uid] = _Assumed(node, self._now() + ASSUMED_SECONDS, placed_at)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ASSUMED_SECONDS, self._due)

    def _confirm(self, uid: str) -> None:
        pod = self._assumed.pop(uid)
        self.usages.of(pod.node).confirm(uid)

    def _due(self) -> None:
        self._timer = None
        before = len(self._assumed)
        self.refresh()
        if self._assumed:
            delay = next(iter(self._assumed.values())).until - self._now()
            self._timer = asyncio.get_running_loop().call_later(max(0.1, delay), self._due)
        if len(self._assumed) < before:
            self._changed()

    def _forget(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        self._expired.pop(uid, None)
        self._counted_early.pop(uid, None)
        self._bound.discard(uid)
        if self.usages.get(uid) is not None:
            self.usages.remove(uid)
            if self._leave_timer is None:
                self._leave_timer = asyncio.get_running_loop().call_later(_LEFT_SECONDS, self._pods_left)

    def _pods_left(self) -> None:
        """Call `changed` after pods were removed: limits, spread and pod affinity depend on our pods, not on
        summaries.
        """
        self._leave_timer = None
        self._changed()

    def _attached(self, target: Target) -> None:
        node = target.node_name
        target.summaries.subscribe(lambda old, new: self._summary_changed(node, target.summary))

    def _summary_changed(self, node: str, summary: Object | None) -> None:
        """Apply a target's new summary of free capacity."""
        if summary is None:
            self._counts.pop(node, None)
            return
        count = self._counts[node] = _Count(summary.uid, read_counted(summary.annotations, self._cluster_uid))
        if count.counted is None:
            self._confirm_settled(node)
        else:
            self._confirm_counted(count)

    def _confirm_counted(self, count: _Count) -> None:
        nodes = {node for node, other in self._counts.items() if other.cluster == count.cluster}
        held = [self.usages.of(node) for node in nodes]
        expired = sum(node in nodes for node in self._expired.values())
        known = sum(len(usage.pods) - len(usage.assumed) for usage in held) - expired
        news = (count.counted or 0) - known
        assumed = [(uid, pod) for uid, pod in self._assumed.items() if pod.node in nodes]
        assumed.sort(key=lambda item: item[1].placed_at is None)
        for uid, pod in assumed[: max(0, news)]:
            self._confirm(uid)
            if pod.placed_at is None:
                self._counted_early[uid] = pod.node
        wrong = [uid for uid, node in self._counted_early.items() if node in nodes][news:] if news < 0 else []
        for uid in wrong:
            node = self._counted_early.pop(uid)
            self.usages.of(node).assume(uid)
            self._set_assumed(uid, node, placed_at=None)

    def _confirm_settled(self, node: str) -> None:
        latest = self._now() - SETTLED_SECONDS
        over = [
            uid
            for uid, pod in self._assumed.items()
            if pod.node == node and pod.placed_at is not None and pod.placed_at <= latest
        ]
        for uid in over:
            self._confirm(uid)

    def _chaperon_changed(self, parent: Key) -> None:
        pod = self._store.get(parent)
        placed = self.usages.get(pod.uid) if pod is not None else None
        if pod is None:
            return
        if placed is None:
            if not self._enabled(pod.namespace):
                self._update(None, pod)
            return
        usage = self.usages.of(placed.node)
        if pod.uid in usage.undelegated and self._has_delegate(pod, placed.node):
            usage.delegated(pod.uid)

    def _takes_room(self, pod: Object, node: str) -> bool:
        """Return True if the pod counts; in a disabled namespace only with a chaperon, or while we claim it."""
        return self._enabled(pod.namespace) or pod.uid in self._claiming or bool(self._placed(pod, node))

    def _has_delegate(self, pod: Object, node: str) -> bool:
        """Return True if the status of the pod's chaperon at this node shows a delegate."""
        return any(chaperon.phase for chaperon in self._placed(pod, node))

    def _placed(self, pod: Object, node: str) -> list[Object]:
        return [
            each.chaperon for each in self._chaperons.of(pod.key) if each.target.node_name == node and each.is_of(pod)
        ]
