"""Errands to targets in mode `reserve`: what a pod does not wait for, so that a slow target costs it nothing.

Watches  nothing: errands come from the scheduler.
Writes   candidates (chaperons that are not allowed) in targets, and deletes those that have lost.
Absent target: its errands are tried again with backoff until they have become needless.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent.api import names
from agent.base.recent import Recent
from agent.clusters import chaperons
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model.errors import InvalidPod
from agent.runtime.controller import Controller
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.chaperon_refusal import ChaperonRefused
from agent.scheduler.writes import CROWDED_SECONDS, Foreign, Writes

REST_SECONDS = 30.0
"""A target that refused to take a candidate is not asked again for so long."""


class Send(NamedTuple):
    """Create a candidate of a pod."""

    pod: Key
    uid: str
    node_name: str


class Drop(NamedTuple):
    """Delete a chaperon, this very one and as it was."""

    chaperon: Key
    uid: str
    version: str
    node_name: str
    begun: bool
    """It has leave or a node: its pod may run, and has to be gone before the chaperon is."""


class _Rest(NamedTuple):
    until: float
    reason: str


class CandidateWriter(Controller[Send | Drop]):
    """One errand per key. `wake` is called with the key of a pod of which a target has refused a candidate."""

    name = "candidates"
    workers = 64

    def __init__(self, deps: Deps, cache: SchedulerCache, writes: Writes, wake: Callable[[Key], None]) -> None:
        super().__init__()
        self._wake = wake
        self._deps = deps
        self._cache = cache
        self._writes = writes
        self._sending: Counter[str] = Counter()
        self._under_way: dict[str, set[str]] = {}
        self._resting: dict[str, dict[str, _Rest]] = {}
        self._dropped = Recent()
        """UIDs of chaperons that are gone, which a watch may not have shown yet."""

    def order(self, key: Send | Drop) -> int:
        """Pods wait for candidates; nobody waits for losers to go."""
        return int(isinstance(key, Drop))

    def run_errand(self, errand: Send | Drop) -> None:
        """Have it done."""
        if isinstance(errand, Send):
            self._under_way.setdefault(errand.uid, set()).add(errand.node_name)
        self.queue.add(errand)

    def sending(self, uid: str) -> frozenset[str]:
        """Virtual nodes whose targets are being sent a candidate of a pod."""
        return frozenset(self._under_way.get(uid, ()))

    def resting(self, uid: str) -> frozenset[str]:
        """Virtual nodes whose targets refused a candidate of a pod a moment ago."""
        now = time.monotonic()
        return frozenset(node for node, rest in self._resting.get(uid, {}).items() if rest.until > now)

    def refusals(self, uid: str) -> dict[str, str]:
        """Why, by virtual node."""
        return {node: rest.reason for node, rest in self._resting.get(uid, {}).items()}

    def rest_left(self, uid: str) -> float | None:
        """In how many seconds the first of these may be asked again, None when none rests."""
        now = time.monotonic()
        left = (rest.until - now for rest in self._resting.get(uid, {}).values() if rest.until > now)
        return min(left, default=None)

    def forget(self, uid: str) -> None:
        """A pod needs no candidates any more."""
        self._under_way.pop(uid, None)
        self._resting.pop(uid, None)

    async def reconcile(self, key: Send | Drop) -> float | None:
        """Run one errand."""
        target = self._deps.targets.by_node(key.node_name)
        if isinstance(key, Drop):
            if target is not None and target.ready and key.uid not in self._dropped and _is_as_it_was(target, key):
                await self.drop(target, key)
            return None
        pod = self._cache.proxies.store.get(key.pod)
        wanted = pod is not None and pod.uid == key.uid and not (pod.deleting or pod.node_name or pod.known.claim)
        wanted = wanted and not self._cache.closed(key.pod[0])
        if target is None or pod is None or not wanted or not target.ready or self._deps.sending.is_closed(target):
            self._done(key)
            return None
        if self._sending[key.node_name] >= self._writes.most(key.node_name):
            return CROWDED_SECONDS
        await self._send(target, key, pod)
        self._done(key)
        return None

    async def _send(self, target: Target, errand: Send, pod: Object) -> None:
        try:
            with self._joining(errand.node_name):
                await self._writes.send(pod.decode(), target, reserve=True)
        except (InvalidPod, ChaperonRefused) as error:
            await self._refused(errand, pod, str(error))
        except Foreign as error:
            await self._refused(errand, pod, f"cannot create PodChaperon: {error}")

    @contextlib.contextmanager
    def _joining(self, node_name: str) -> Iterator[None]:
        """An errand is one of those that wait for a target to take a candidate."""
        self._sending[node_name] += 1
        try:
            yield
        finally:
            self._sending[node_name] -= 1

    async def _refused(self, errand: Send, pod: Object, message: str) -> None:
        self._resting.setdefault(errand.uid, {})[errand.node_name] = _Rest(time.monotonic() + REST_SECONDS, message)
        try:
            await self._writes.remember(pod.decode(), errand.node_name, message, "reserve", untaken=True)
        finally:
            self._wake(pod.key)

    def _done(self, errand: Send) -> None:
        nodes = self._under_way.get(errand.uid)
        if nodes is not None:
            nodes.discard(errand.node_name)
            if not nodes:
                del self._under_way[errand.uid]

    async def drop(self, target: Target, errand: Drop) -> None:
        """Delete a chaperon now. Raises KubeError."""
        raw = await chaperons.request_delete(
            target,
            errand.chaperon,
            errand.uid,
            version=errand.version,
            propagation="Foreground" if errand.begun else "Background",
        )
        if raw:
            self._writes.absorb(target.chaperons, raw)
        elif raw is not None:
            self._dropped.add(errand.uid)


def _is_as_it_was(target: Target, errand: Drop) -> bool:
    """If not, the event that said so has the pod looked at again."""
    found = target.chaperons.store.get(errand.chaperon)
    return found is not None and (found.uid, found.version, found.deleting) == (errand.uid, errand.version, False)


def parent_uid(chaperon: Object) -> str:
    """UID of the proxy pod that a chaperon stands for."""
    return chaperon.labels.get(names.LABEL_PARENT_UID, "")
