"""Fenced pods: mark chaperons with their Lease, and proxy pods whose target keeps the fence.

Watches  proxy pods, their owners, namespaces, chaperons in targets, states of targets.
Writes   annotations: of chaperons, the Lease that fences them; of proxy pods, whether their target keeps the fence.
  Warning events FenceNotKept on pods whose fence is not kept.
Annotations of pods in an absent target stay. A refused write concerns one pod only; Leases are renewed by another
controller (`renewals`).
"""

import contextlib
import math
import time

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.api.names import fencing
from agent.clusters.deps import Deps
from agent.clusters.stores.chaperons import Placed
from agent.clusters.stores.fences import is_noted, lease_of
from agent.clusters.target import Target
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Key, Object
from agent.moves.fence import decide
from agent.runtime.controller import Controller

_PATIENCE_SECONDS = 30.0
"""Seconds that a target has to accept a fence before a warning is emitted on the pod."""
_REPEAT_SECONDS = 60.0


class FencedPodController(Controller[Key]):
    """Keys are those of proxy pods."""

    name = "fencedpods"
    workers = 64

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._sent = deps.fences.sent
        self._pods = deps.proxies.informer
        self._fenced = deps.fenced_pods
        self._term = float(math.ceil(deps.settings.fence_after))
        self._unkept: dict[str, float] = {}
        """Moment from which a pod's fence has not been kept, by UID of the pod."""
        for informer in (
            self._pods,
            deps.namespaces.informer,
            *(deps.owners.informers.values() if deps.owners else ()),
        ):
            self.watch(informer, lambda obj: ())
        self._pods.subscribe(self._forget)
        self._fenced.on_change(lambda pod, place: self.queue.add(pod))
        deps.chaperons.subscribe(self._chaperon_changed)
        deps.targets.on_change(self._target_changed)
        self._sent.on_turn(self._place_turned)

    def _forget(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._unkept.pop(old.uid, None)
            self._sent.void.discard(old.uid)

    def _chaperon_changed(self, parent: Key) -> None:
        pod = self._pods.store.get(parent)
        if pod is not None and (self._fenced.asks(pod) or is_noted(pod)):
            self.queue.add(parent)

    def _target_changed(self, target: Target) -> None:
        for place in self._fenced.places(target.node_name):
            self._place_turned(place)

    def _place_turned(self, place: Key) -> None:
        for pod in self._fenced.at(place):
            self.queue.add(pod.key)

    def lane(self, key: Key) -> str:
        """Use one lane per target, so that an unresponsive target delays no pods of other targets."""
        pod = self._pods.store.get(key)
        return pod.node_name if pod is not None else ""

    async def reconcile(self, key: Key) -> float | None:
        """Mark a pod's chaperon as fenced, and record on the pod whether its target keeps the fence."""
        pod = self._pods.store.get(key)
        target = self._deps.targets.by_node(pod.node_name) if pod is not None and pod.node_name else None
        if pod is None or target is None or target.is_self or not target.identified or target.record.silent:
            return None
        placed = self._chaperon(target, pod)
        if not self._fenced.asks(pod):
            await self._leave(pod, placed)
            return None
        match decide.decide(self._view(target, pod, placed)):
            case decide.MarkChaperon(lease) if placed is not None:
                await self._mark(placed, lease)
            case decide.Note(seconds, why):
                return await self._say(pod, seconds, why)
            case _:
                pass
        return None

    def _view(self, target: Target, pod: Object, placed: Placed | None) -> decide.FencedPod:
        place = (pod.node_name, pod.namespace)
        return decide.FencedPod(
            fencing.lease(self._deps.cluster_uid, pod.node_name),
            self._term,
            self._sent.refusals.get(place, ""),
            place in self._sent.growing,
            target.ready,
            placed.chaperon.annotations if placed is not None else None,
            (placed.chaperon.decode().get("spec") or {}) if placed is not None else {},
            target.replicas,
        )

    def _chaperon(self, target: Target, pod: Object) -> Placed | None:
        found = (each for each in self._deps.chaperons.of(pod.key) if each.target is target and each.is_of(pod))
        return next((each for each in found if not each.chaperon.deleting), None)

    async def _leave(self, pod: Object, placed: Placed | None) -> None:
        """Remove the fence of a pod: first the note from the pod, then the mark from the chaperon.

        Without the mark the target stops nothing. The leader renews the Lease until the mark has been removed, also a
        new leader that finds the mark alone.
        """
        await self._note(pod, None)
        self._unkept.pop(pod.uid, None)
        if placed is not None and lease_of(placed.chaperon):
            await self._mark(placed, None)

    async def _mark(self, placed: Placed, lease: str | None) -> None:
        chaperon = placed.chaperon
        body = {"metadata": {"uid": chaperon.uid, "annotations": {fencing.ANNOTATION_LEASE: lease}}}
        with contextlib.suppress(NotFound):
            raw = await placed.target.port.patch_raw(CHAPERONS, chaperon.name, body, chaperon.namespace)
            placed.target.chaperons.absorb(raw)

    async def _say(self, pod: Object, seconds: float | None, why: str) -> float | None:
        """Write to a pod whether its fence is kept, and warn if it is not for long. Return the seconds until a
        re-check."""
        await self._note(pod, seconds)
        if seconds is not None or pod.deleting or not why:
            self._unkept.pop(pod.uid, None)
            return None
        patience = self._unkept.setdefault(pod.uid, time.monotonic()) + _PATIENCE_SECONDS - time.monotonic()
        if patience > 0:
            return patience
        message = f"the target of the pod does not keep its fence ({names.SHORT_PREFIX}{fencing.FENCE}): {why}"
        self._deps.recorder.event(pod.decode(), "Warning", "FenceNotKept", message)
        return _REPEAT_SECONDS

    async def _note(self, pod: Object, seconds: float | None) -> None:
        if seconds is None and is_noted(pod):
            # The note is void at once, also if the API server refuses to remove it.
            self._sent.void.add(pod.uid)
        now = self._pods.store.get(pod.key)
        text = str(math.ceil(seconds)) if seconds is not None else None
        if now is None or now.uid != pod.uid:
            return
        if now.annotations.get(fencing.ANNOTATION_KEPT) != text:
            body = {"metadata": {"uid": pod.uid, "annotations": {fencing.ANNOTATION_KEPT: text}}}
            try:
                with self._sent.noting_at((pod.node_name, pod.namespace)):
                    raw = await self._deps.local.client.patch_raw(PODS, pod.name, body, pod.namespace)
                    self._pods.absorb(raw)
            except (NotFound, Conflict):
                return
        self._sent.void.discard(pod.uid)
