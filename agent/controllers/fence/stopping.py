"""Stopping: delegates end whose source renews its Lease here no more, and get no others.

Watches  the Leases of sources, PodChaperons that are fenced by them, their delegates.
Writes   annotations of these chaperons: that this agent keeps the fence, and that it has fallen; deletes the delegates,
         with the grace that they have; a Warning event Fenced on each.
It needs nobody else: that their source cannot be heard is what this is about. Another leader goes on from how long ago
the API server says that a Lease was renewed.
"""

import contextlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, LEASES, PODS
from agent.api.names import fencing
from agent.base.clock import stamp
from agent.clusters.deps import Deps
from agent.clusters.fences import clock, lease_of
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Key, Object
from agent.model import fence
from agent.runtime.controller import Controller

_INDEX = "fence"
_LOOK_SECONDS = 2.0
"""Pause between looks while delegates are stopped: one may just have been made."""


class StoppingRoom(Controller[Key]):
    """Keys are namespace and name of the Lease."""

    name = "stopping"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._seen = deps.fences.seen
        # As others see who leads here.
        self._replica = deps.lease.identity if deps.lease is not None else deps.settings.replica
        self._leases = deps.local.informer(LEASES, labels=fencing.LABEL_FENCE)
        self._chaperons = deps.local.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
        self._pods = deps.local.informer(PODS, labels=names.LABEL_PARENT_UID)
        self._chaperons.store.index(_INDEX, lambda chaperon: ["/".join(key) for key in _keys(chaperon)])
        self.watch(self._leases, self._lease_changed)
        self.watch(self._chaperons, _keys)
        self.watch(self._pods, self._of_pod)

    def _lease_changed(self, lease: Object) -> Iterable[Key]:
        # Before it has waited for its turn: it counts from now at the latest.
        if self._leases.store.get(lease.key) is lease:
            self._look(lease.key)
        return (lease.key,)

    def _of_pod(self, pod: Object) -> Iterable[Key]:
        owner = pod.controller
        if owner is None or owner.kind != CHAPERONS.name:
            return ()
        chaperon = self._chaperons.store.get((pod.namespace, owner.name))
        return _keys(chaperon) if chaperon is not None else ()

    def _look(self, key: Key) -> None:
        lease = self._leases.store.get(key)
        skew = timedelta(seconds=self._client.session.skew)
        found = lease.decode() if lease is not None else None
        self._seen.note(key, fence.see(self._seen.get(key), found, clock(), self._deps.clock.now() + skew))

    async def reconcile(self, key: Key) -> float | None:
        """Let run, or stop, what is fenced by one Lease."""
        fenced = [each for each in self._chaperons.store.by_index(_INDEX, "/".join(key)) if not each.deleting]
        if not fenced:
            if self._leases.store.get(key) is None:
                self._seen.note(key, None)
            return None
        self._look(key)
        falls = self._seen.left(key) <= 0
        stops = False
        for chaperon in fenced:
            if falls or self._seen.bar(chaperon) == "ever":
                stops = await self._stop(chaperon) or stops
            else:
                await self._promise(key, chaperon)
        left = self._seen.left(key)
        return min((each for each in (_LOOK_SECONDS if stops else 0.0, left) if each > 0), default=None)

    async def _promise(self, key: Key, chaperon: Object) -> None:
        seen = self._seen.get(key)
        if seen is None or self._leases.store.get(key) is None:
            return
        text = fence.promise(self._replica, seen.term, chaperon.decode().get("spec") or {})
        if chaperon.annotations.get(fencing.ANNOTATION_KEPT_BY) != text:
            await self._annotate(chaperon, {fencing.ANNOTATION_KEPT_BY: text})

    async def _stop(self, chaperon: Object) -> bool:
        """Returns whether its delegate was there yet. It is said before, so that no other is made meanwhile."""
        if fencing.ANNOTATION_FENCED not in chaperon.annotations:
            since = stamp(self._deps.clock.now())
            await self._annotate(chaperon, {fencing.ANNOTATION_FENCED: since, fencing.ANNOTATION_KEPT_BY: None})
        pod = self._pods.store.get(chaperon.key)
        if pod is None or pod.controller is None or pod.controller.uid != chaperon.uid:
            return False
        if not pod.deleting:
            lease = f"lease {chaperon.namespace}/{lease_of(chaperon)}"
            message = f"stopped: its source has not renewed {lease}, so that it may start another one elsewhere"
            self._deps.recorder.event(pod.decode(), "Warning", "Fenced", message)
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        return True

    async def _annotate(self, chaperon: Object, annotations: dict[str, Any]) -> None:
        body = {"metadata": {"uid": chaperon.uid, "annotations": annotations}}
        with contextlib.suppress(NotFound):
            raw = await self._client.patch_raw(CHAPERONS, chaperon.name, body, chaperon.namespace)
            self._chaperons.absorb(raw)


def _keys(chaperon: Object) -> list[Key]:
    lease = lease_of(chaperon)
    return [(chaperon.namespace, lease)] if lease else []
