"""Candidate writer: creates candidates in targets and deletes losing ones, in parallel to the steps of their pods.

Pods do not wait for it, so a slow target does not delay them.

Watches  nothing: the scheduler enqueues the writes.
Writes   candidates (chaperons that are not allowed to start) in targets, and deletes them.
Absent target: deletions are retried with backoff until they are unnecessary; candidates are not created.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from agent.api import names
from agent.base.recent import Recent
from agent.clusters.deps import Deps
from agent.clusters.stores import chaperons
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.model.errors import InvalidPod
from agent.runtime.controller import Controller
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.chaperon_writer import ChaperonRefused, ChaperonWriter, Foreign
from agent.scheduler.limits import RequestLimits, TargetLimiter
from agent.scheduler.proxy_writer import ProxyWriter

REFUSED_SECONDS = 30.0
"""Seconds before a target that refused a candidate is asked again."""


class CreateCandidate(NamedTuple):
    """Create a candidate of a pod."""

    pod: Key
    uid: str
    node_name: str

    @property
    def ident(self) -> str:
        """Identifies this request in a limiter."""
        return f"{self.uid} {self.node_name}"


class DeleteChaperon(NamedTuple):
    """Delete a chaperon, guarded by UID and version."""

    chaperon: Key
    uid: str
    version: str
    node_name: str
    begun: bool
    """True if it is allowed or has a node: its pod may run, and has to be deleted before the chaperon is."""


class _Refusal(NamedTuple):
    until: float
    reason: str


class CandidateWriter(Controller[CreateCandidate | DeleteChaperon]):
    """One write per key. Calls `wake` with the key of a pod if a target has refused its candidate."""

    name = "candidates"
    workers = 64

    def __init__(
        self,
        deps: Deps,
        cache: SchedulerCache,
        proxies: ProxyWriter,
        writer: ChaperonWriter,
        limits: RequestLimits,
        wake: Callable[[Key], None],
    ) -> None:
        super().__init__()
        self._wake = wake
        self._deps = deps
        self._cache = cache
        self._proxies = proxies
        self._writer = writer
        self._limiter: TargetLimiter[CreateCandidate | DeleteChaperon] = TargetLimiter(limits.most, self.queue.add)
        self._creating: dict[str, set[str]] = {}
        self._refusals: dict[str, dict[str, _Refusal]] = {}
        self._deleted = Recent()
        """UIDs of deleted chaperons that a watch may still show."""

    def order(self, key: CreateCandidate | DeleteChaperon) -> int:
        """Creations first: pods wait for candidates, but not for deletions."""
        return int(isinstance(key, DeleteChaperon))

    def enqueue(self, write: CreateCandidate | DeleteChaperon) -> None:
        """Queue a write."""
        if isinstance(write, CreateCandidate):
            self._creating.setdefault(write.uid, set()).add(write.node_name)
        self.queue.add(write)

    def creating(self, uid: str) -> frozenset[str]:
        """Virtual nodes in whose targets a candidate of a pod is being created."""
        return frozenset(self._creating.get(uid, ()))

    def refused(self, uid: str) -> frozenset[str]:
        """Virtual nodes whose targets refused a candidate of a pod less than `REFUSED_SECONDS` ago."""
        now = time.monotonic()
        return frozenset(node for node, refusal in self._refusals.get(uid, {}).items() if refusal.until > now)

    def reasons(self, uid: str) -> dict[str, str]:
        """Reasons of refusals of a pod's candidates, by virtual node."""
        return {node: refusal.reason for node, refusal in self._refusals.get(uid, {}).items()}

    def retry_after(self, uid: str) -> float | None:
        """Seconds until the first refusing target may be asked again; None if there is none."""
        now = time.monotonic()
        left = (refusal.until - now for refusal in self._refusals.get(uid, {}).values() if refusal.until > now)
        return min(left, default=None)

    def forget(self, uid: str) -> None:
        """Drop the state of a pod that needs no candidates any longer."""
        for node_name in self._creating.pop(uid, ()):
            self._limiter.cancel(f"{uid} {node_name}")
        self._refusals.pop(uid, None)

    async def reconcile(self, key: CreateCandidate | DeleteChaperon) -> float | None:
        """Do the write, unless it is outdated."""
        target = self._deps.targets.by_node(key.node_name)
        if isinstance(key, DeleteChaperon):
            if target is not None and target.ready and key.uid not in self._deleted and _is_as_it_was(target, key):
                await self.delete(target, key)
            return None
        pod = self._cache.proxies.store.get(key.pod)
        wanted = pod is not None and pod.uid == key.uid and not (pod.deleting or podstate.home_node(pod))
        wanted = wanted and not self._cache.closed(key.pod[0])
        if (
            target is None
            or pod is None
            or not wanted
            or not target.ready
            or self._deps.inflight_chaperons.is_closed(target)
        ):
            self._limiter.cancel(key.ident)
            self._done(key)
            return None
        with self._limiter.slot(key.node_name, key.ident, key, pod.priority) as admitted:
            if admitted:
                await self._create(target, key, pod)
                self._done(key)
        return None

    async def _create(self, target: Target, key: CreateCandidate, pod: Object) -> None:
        try:
            await self._writer.create(pod.decode(), target, reserve=True)
        except (InvalidPod, ChaperonRefused) as error:
            await self._note_refusal(key, pod, str(error))
        except Foreign as error:
            await self._note_refusal(key, pod, f"cannot create PodChaperon: {error}")

    async def _note_refusal(self, key: CreateCandidate, pod: Object, message: str) -> None:
        refusal = _Refusal(time.monotonic() + REFUSED_SECONDS, message)
        self._refusals.setdefault(key.uid, {})[key.node_name] = refusal
        try:
            await self._proxies.remember(pod.decode(), key.node_name, message, "reserve", refused=True)
        finally:
            self._wake(pod.key)

    def _done(self, key: CreateCandidate) -> None:
        nodes = self._creating.get(key.uid)
        if nodes is not None:
            nodes.discard(key.node_name)
            if not nodes:
                del self._creating[key.uid]

    async def delete(self, target: Target, key: DeleteChaperon) -> None:
        """Delete a chaperon now.

        :raises KubeError: if the request fails
        """
        raw = await chaperons.request_delete(
            target,
            key.chaperon,
            key.uid,
            version=key.version,
            propagation="Foreground" if key.begun else "Background",
        )
        if raw:
            self._proxies.absorb(target.chaperons, raw)
        elif raw is not None:
            self._deleted.add(key.uid)


def _is_as_it_was(target: Target, key: DeleteChaperon) -> bool:
    """Return True if the chaperon is unchanged. Otherwise the event of its change has requeued the pod."""
    found = target.chaperons.store.get(key.chaperon)
    return found is not None and (found.uid, found.version, found.deleting) == (key.uid, key.version, False)


def parent_uid(chaperon: Object) -> str:
    """UID of the proxy pod that a chaperon represents."""
    return chaperon.labels.get(names.LABEL_PARENT_UID, "")
