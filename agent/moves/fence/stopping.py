"""Stopping: delete delegates whose source has stopped renewing its Lease in this cluster, and allow no new ones.

Watches  the Leases of sources, PodChaperons that are fenced by them, their delegates.
Writes   deletes the delegates within the grace period promised to their source; Warning events Fenced and FenceFailed
  on them.
Needs no connection to the source, since losing it is the reason. A new leader continues from the API server's times of
the renewals.
"""

import asyncio

from agent.api.kinds import PODS
from agent.base.backoff import Backoff
from agent.clusters.deps import Deps
from agent.clusters.stores.fences import lease_of
from agent.kube.errors import Conflict, KubeError, NotFound, Unreachable
from agent.kube.store import Key, Object
from agent.kube.urgency import urgent
from agent.model import fence
from agent.moves.fence.fenced import FencedChaperons, lease_keys
from agent.runtime.controller import Controller
from agent.runtime.task_group import together

AT_ONCE = 32
"""Deletions at a time: 150 delegates take a second where the API server answers in 200 ms."""
_LOOK_SECONDS = 2.0
"""Most seconds between checks of the clock: timers of the event loop stop while the machine sleeps."""
_SHORTEST_SECONDS = 0.05
_ANSWER_SECONDS = 5.0
"""Timeout of a deletion, which is then tried again."""
_RETRY_SECONDS = (0.5, 5.0)
"""First and longest pause after a deletion that was refused."""


class FenceStoppingController(Controller[Key]):
    """Keys are those of chaperons. A delegate that cannot be deleted delays no other."""

    name = "stopping"
    workers = AT_ONCE

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._seen = deps.fences.seen
        self._fenced = FencedChaperons(deps)
        self._fallen: set[Key] = set()
        """Expired Leases."""
        self._retries: dict[str, Backoff] = {}
        """Backoff of refused deletions by UID of the chaperon."""
        self.watch(self._fenced.leases, self._lease_changed)
        self.watch(self._fenced.chaperons, lambda chaperon: [chaperon.key] if lease_of(chaperon) else ())
        self._fenced.chaperons.subscribe(self._chaperon_changed)
        self.watch(self._fenced.pods, self._fenced.of_pod)

    def _lease_changed(self, lease: Object) -> list[Key]:
        # Handled outside the queue, so that a renewal counts without delay.
        if self._fenced.leases.store.get(lease.key) is lease:
            self._fenced.look(lease.key)
        self._forget_lease(lease.key)
        return []

    def _chaperon_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._seen.forget(old.uid)
            self._retries.pop(old.uid, None)
            for key in lease_keys(old):
                self._forget_lease(key)

    def _forget_lease(self, key: Key) -> None:
        if self._fenced.leases.store.get(key) is None and not self._fenced.of(key):
            self._seen.note(key, None)
            self._fallen.discard(key)

    async def run(self) -> None:
        """Stop delegates and check the clock until cancelled."""
        await together(super().run(), self._look_at_clock())

    async def _look_at_clock(self) -> None:
        while True:
            next_fall = self._look()
            await asyncio.sleep(min(_LOOK_SECONDS, max(_SHORTEST_SECONDS, next_fall)))

    def _look(self) -> float:
        """Enqueue the delegates that have to stop by now. Return the seconds until the next fence expires."""
        next_fall = _LOOK_SECONDS
        for key in self._seen.leases():
            left = self._seen.left(key)
            if left > 0:
                self._fallen.discard(key)
                next_fall = min(next_fall, left)
            elif key not in self._fallen:
                self._fallen.add(key)
                for chaperon in self._fenced.of(key):
                    self.queue.add(chaperon.key)
        return next_fall

    async def reconcile(self, key: Key) -> float | None:
        """Stop the delegate of one chaperon if its fence has expired."""
        chaperon = self._fenced.get(key)
        if chaperon is None or not self._fenced.has_fallen(chaperon):
            return None
        self._seen.stop(chaperon)
        pod = self._fenced.delegate(chaperon)
        ending = self._fenced.ending(chaperon, pod) if pod is not None else None
        if pod is None or ending is None:
            return None
        try:
            await self._delete(chaperon, pod, ending)
        except KubeError as error:
            message = f"its fence has fallen, and it cannot be deleted: {error}"
            self._deps.recorder.event(pod.decode(), "Warning", "FenceFailed", message)
            return self._retries.setdefault(chaperon.uid, Backoff(*_RETRY_SECONDS)).next()
        self._retries.pop(chaperon.uid, None)
        return _LOOK_SECONDS

    async def _delete(self, chaperon: Object, pod: Object, ending: fence.Ending) -> None:
        try:
            with urgent():
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace=ending.grace)
        except TimeoutError:
            raise Unreachable(f"no answer within {_ANSWER_SECONDS:g} s") from None
        except (NotFound, Conflict):
            return
        lease = f"lease {chaperon.namespace}/{lease_of(chaperon)}"
        message = f"stopped: its source has not renewed {lease}, so that it may start another one elsewhere"
        self._deps.recorder.event(pod.decode(), "Warning", "Fenced", message)
