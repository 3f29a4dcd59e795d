"""Renewals: in each target a Lease per namespace tells that this cluster lives, where pods ask to be stopped otherwise.

Watches  proxy pods, their owners, namespaces, our chaperons in targets, states of targets.
Writes   the Lease in targets, every 10 s at most; annotations: of chaperons, by which Lease they are fenced; of proxy
         pods, that their target keeps the fence. Warning events FenceNotKept on pods whose fence is not kept.
Absent target: its Lease is not renewed from when it does not answer. What is on the proxy pods stays as it was.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import CHAPERONS, LEASES, PODS
from agent.api.names import fencing
from agent.base.clock import micro_stamp
from agent.clusters.chaperons import Placed
from agent.clusters.deps import Deps
from agent.clusters.fences import lease_of
from agent.clusters.target import Target
from agent.kube.errors import Conflict, Forbidden, NotFound, Unreachable
from agent.kube.store import Key, Object
from agent.model import fence
from agent.runtime.controller import Controller

_ASKS, _KEPT = f'/{fencing.FENCE}"'.encode(), f'"{fencing.ANNOTATION_KEPT}"'.encode()
_ANSWER_SECONDS = 5.0
"""A renewal that has no answer by then is given up."""
_REFUSED_SECONDS = 30.0
_OWNERS = 10
_PATIENCE_SECONDS = 30.0
"""So long it may take until a target keeps a fence, before its pod is told that it does not."""


class FenceRoom(Controller[Key]):
    """Keys are virtual node and namespace."""

    name = "fence"
    workers = 64

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._sent = deps.fences.sent
        self._term = float(math.ceil(deps.settings.fence_after))
        self._leases: dict[Key, dict[str, Any]] = {}
        """As they were written last."""
        self._unkept: dict[str, float] = {}
        """UIDs of pods whose fence is not kept, since when."""
        self.watch(deps.proxies.informer, self._there)
        for informer in (deps.namespaces.informer, *(deps.owners.informers.values() if deps.owners else ())):
            self.watch(informer, lambda obj: ())
            informer.subscribe(self._level_changed)
        deps.chaperons.subscribe(self._chaperon_changed)
        deps.targets.on_change(self._target_changed)

    # What brings a key here ------------------------------------------------------------------------------------------

    def _there(self, pod: Object) -> Iterable[Key]:
        return [(pod.node_name, pod.namespace)] if pod.node_name and (_KEPT in pod.raw or self._asks(pod)) else ()

    def _asks(self, pod: Object) -> bool:
        own: Mapping[str, str] = pod.annotations if _ASKS in pod.raw else {}
        owners = self._deps.owners.of(pod).owners if self._deps.owners is not None else ()
        namespace = self._deps.namespaces.annotations(pod.namespace)
        return fence.asked((own, *(owner.annotations for owner in owners), namespace))

    def _level_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        if old is not None and new is not None and _ASKS not in old.raw and _ASKS not in new.raw:
            return
        if old is None and new is not None and _ASKS not in new.raw:
            return
        namespace = obj.namespace or obj.name
        for pod in self._deps.proxies.informer.store:
            if pod.namespace == namespace and pod.node_name:
                self.queue.add((pod.node_name, namespace))

    def _chaperon_changed(self, parent: Key) -> None:
        pod = self._deps.proxies.informer.store.get(parent)
        for key in self._there(pod) if pod is not None else ():
            self.queue.add(key)

    def _target_changed(self, target: Target) -> None:
        for pod in self._deps.proxies.bound_to(target.node_name):
            for key in self._there(pod):
                self.queue.add(key)

    # What becomes of it ----------------------------------------------------------------------------------------------

    def lane(self, key: Key) -> str:
        """A target that does not answer holds up no other's Leases."""
        return key[0]

    async def reconcile(self, key: Key) -> float | None:
        """Renew one Lease, and see that pods are fenced by it, or are no more."""
        node, namespace = key
        pods = [pod for pod in self._deps.proxies.bound_to(node) if pod.namespace == namespace]
        asking = [pod for pod in pods if self._asks(pod)]
        target = self._deps.targets.by_node(node)
        if target is None or target.is_self or not target.identified or target.record.silent:
            return None
        for pod in pods:
            if pod not in asking:
                await self._leave(target, pod)
        if not asking:
            self._leases.pop(key, None)
            return None
        name = fencing.lease(self._deps.cluster_uid, node)
        pause = fence.interval(self._term)
        wait = pause - self._sent.ago(key)
        if wait <= 0 or key not in self._leases:
            try:
                await self._renew(target, key, name, asking)
            except Forbidden as error:
                for pod in asking:
                    await self._say(pod, None, f"its target does not let it: {error.message}")
                return _REFUSED_SECONDS
            wait = pause
        for pod in asking:
            await self._fence(target, pod, name)
        return max(wait, 0.05)

    async def _renew(self, target: Target, key: Key, name: str, pods: list[Object]) -> None:
        """Write the Lease. What others have promised for another term than it has from now on is void before."""
        with self._sent.sending(key):
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    lease = self._leases.pop(key, None) or await self._read(target, name, key[1])
                    spec = lease.setdefault("spec", {})
                    if spec.get("leaseDurationSeconds") != int(self._term):
                        for pod in pods:
                            await self._keep(pod, None)
                    now = micro_stamp(self._deps.clock.now())
                    spec |= {"leaseDurationSeconds": int(self._term), "renewTime": now}
                    self._belong(target, lease, pods)
                    self._leases[key] = msgspec.json.decode(await self._write(target, lease))
            except TimeoutError:
                target.probe_now()
                raise Unreachable(f"no answer about lease {key[1]}/{name} in target {target.title}") from None
            except Unreachable:
                target.probe_now()
                raise

    async def _read(self, target: Target, name: str, namespace: str) -> dict[str, Any]:
        try:
            return await target.port.get(LEASES, name, namespace)
        except NotFound:
            labels = {fencing.LABEL_FENCE: self._deps.cluster_uid}
            metadata = {"name": name, "namespace": namespace, "labels": labels}
            spec = {"holderIdentity": self._deps.cluster_uid}
            return {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": metadata, "spec": spec}

    def _belong(self, target: Target, lease: dict[str, Any], pods: list[Object]) -> None:
        """The Lease goes with the last of its chaperons; a few of them will do, since it is made again if need be."""
        placed = (self._chaperon(target, pod) for pod in pods)
        owners = [
            {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name, "name": each.name, "uid": each.uid}
            for each in sorted((each.chaperon for each in placed if each is not None), key=lambda each: each.name)
        ]
        if owners:
            lease["metadata"]["ownerReferences"] = owners[:_OWNERS]

    async def _write(self, target: Target, lease: dict[str, Any]) -> bytes:
        if "uid" in lease["metadata"]:
            return await target.port.update_raw(LEASES, lease)
        return await target.port.create_raw(LEASES, lease)

    async def _fence(self, target: Target, pod: Object, name: str) -> None:
        """See that the chaperon of a pod is fenced, and say on the pod whether its target keeps that."""
        placed = self._chaperon(target, pod)
        if placed is None:
            await self._say(pod, None, "")
            return
        chaperon = placed.chaperon
        if lease_of(chaperon) != name:
            await self._mark(placed, name)
            return
        promise = fence.promised(chaperon.annotations.get(fencing.ANNOTATION_KEPT_BY))
        fenced = fencing.ANNOTATION_FENCED in chaperon.annotations
        if promise is not None and promise.replica in target.replicas and not fenced:
            await self._say(pod, promise.seconds, "")
        else:
            why = (
                "it was stopped there" if fenced else "the agent there does not say that it does: see that it is alive"
            )
            await self._say(pod, None, f"{why}, and of a version that knows fences, which Admiralty's do not")

    async def _leave(self, target: Target, pod: Object) -> None:
        """A pod does not ask for a fence any more."""
        await self._keep(pod, None)
        self._unkept.pop(pod.uid, None)
        placed = self._chaperon(target, pod)
        if placed is not None and lease_of(placed.chaperon):
            await self._mark(placed, None)

    def _chaperon(self, target: Target, pod: Object) -> Placed | None:
        found = (each for each in self._deps.chaperons.of(pod.key) if each.target is target and each.is_of(pod))
        return next((each for each in found if not each.chaperon.deleting), None)

    async def _mark(self, placed: Placed, lease: str | None) -> None:
        chaperon = placed.chaperon
        body = {"metadata": {"uid": chaperon.uid, "annotations": {fencing.ANNOTATION_LEASE: lease}}}
        try:
            raw = await placed.target.port.patch_raw(CHAPERONS, chaperon.name, body, chaperon.namespace)
        except NotFound:
            return
        placed.target.chaperons.absorb(raw)

    async def _say(self, pod: Object, seconds: float | None, why: str) -> None:
        """Write on a pod whether its fence is kept, and tell if it is not for long."""
        await self._keep(pod, seconds)
        if seconds is not None or pod.deleting:
            self._unkept.pop(pod.uid, None)
            return
        since = self._unkept.setdefault(pod.uid, time.monotonic())
        if why and time.monotonic() - since >= _PATIENCE_SECONDS:
            message = f"the target of the pod does not keep its fence ({names.SHORT_PREFIX}{fencing.FENCE}): {why}"
            self._deps.recorder.event(pod.decode(), "Warning", "FenceNotKept", message)

    async def _keep(self, pod: Object, seconds: float | None) -> None:
        informer = self._deps.proxies.informer
        now = informer.store.get(pod.key)
        text = str(math.ceil(seconds)) if seconds is not None else None
        if now is None or now.uid != pod.uid or now.annotations.get(fencing.ANNOTATION_KEPT) == text:
            return
        body = {"metadata": {"uid": pod.uid, "annotations": {fencing.ANNOTATION_KEPT: text}}}
        try:
            informer.absorb(await self._deps.local.client.patch_raw(PODS, pod.name, body, pod.namespace))
        except (NotFound, Conflict):
            return
