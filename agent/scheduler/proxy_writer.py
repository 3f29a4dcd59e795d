"""Proxy writer: claims proxy pods, binds them, and writes failed targets and reasons for waiting into their status."""

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import condition_of, find_condition, set_condition
from agent.api.kinds import PODS
from agent.clusters.deps import Deps
from agent.clusters.field_owners import untracked
from agent.clusters.target import Target
from agent.kube.errors import Conflict, NotFound, StatusError
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import podstate
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.failed_targets import bytes_left, failed_targets_of, with_failed_target
from agent.scheduler.metrics import ATTEMPTS, REFUSALS, Stopwatch
from agent.scheduler.modes import Mode
from agent.scheduling.explain import without_figures
from agent.scheduling.ranking import Ranking

log = logging.getLogger(__name__)

FIGURES_SECONDS = 30.0
"""How long a pod that waits goes without other figures: what is free changes all the time where others come and go."""


class ProxyWriter:
    """What the process knows beyond the API objects only saves work or widens the choice; losing it loses nothing."""

    def __init__(self, deps: Deps, cache: SchedulerCache) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._proxies = cache.proxies
        self._assumed = cache.assumed
        self.stopwatch = Stopwatch()
        self.absorbing = False
        """Whether what a store tells right now is the answer to a write of ours, after which the step goes on."""
        self.bound: set[str] = set()
        """UIDs of pods bound by us that the watch still shows without a node."""
        self._told: dict[str, float] = {}
        """UIDs of pods to when they were told last why they wait, of a clock that is never set."""

    def forget(self, uid: str) -> None:
        """A pod needs no target any more."""
        self.bound.discard(uid)
        self._told.pop(uid, None)
        self.stopwatch.end(uid)

    def absorb(self, informer: Informer, raw: bytes) -> Object:
        """Take the answer to a write of ours that nobody needs to be woken for."""
        self.absorbing = True
        try:
            return informer.absorb(raw)
        finally:
            self.absorbing = False

    async def _patch(self, metadata: Mapping[str, Any], body: dict[str, Any]) -> Object:
        """Change a proxy pod's metadata, guarded by its UID."""
        body = {"metadata": {"uid": metadata["uid"], **body}}
        raw = await self._client.patch_raw(PODS, metadata["name"], body, metadata["namespace"])
        return self.absorb(self._proxies, raw)

    async def claim(self, pod: Object, target: Target, chaperon_uid: str = "", run: str = "") -> Object | None:
        """Promise the pod to one target, in mode `reserve` to one chaperon there. None when the pod is gone.

        One write, guarded by the pod's version, which grows by it, also where the claim was the same before: a deposed
        leader fails here. Only this target's finalizer is left.

        :param run: the start of its group, empty for none
        """
        annotations: dict[str, str | None] = {names.ANNOTATION_CLAIM: target.node_name}
        if chaperon_uid != podstate.claimed_chaperon(pod):
            annotations[names.ANNOTATION_CLAIM_UID] = chaperon_uid or None
        if podstate.claimed_node(pod) == target.node_name and not chaperon_uid:
            annotations[names.ANNOTATION_CLAIM_RENEWED] = secrets.token_hex(4)
        elif podstate.claim_as_written(pod)[1]:
            annotations[names.ANNOTATION_CLAIM_RENEWED] = None
        if run:
            annotations[names.ANNOTATION_GROUP_RUN] = run
        change = {
            "resourceVersion": pod.version,
            "finalizers": podstate.held_by(pod.finalizers, target.finalizer),
            "annotations": annotations,
            **untracked(applied=pod.applied),
        }
        self._assumed.assume(pod, target.node_name)
        try:
            return await self._patch({"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}, change)
        except NotFound:
            return None
        finally:
            self._assumed.finish_claim(pod)

    async def unclaim(self, pod: Object) -> None:
        """Take the claim back, if the pod is as it was."""
        annotations = {names.ANNOTATION_CLAIM: None, names.ANNOTATION_CLAIM_UID: None}
        await self._patch(pod.decode()["metadata"], {"resourceVersion": pod.version, "annotations": annotations})

    async def remember(
        self, proxy: Mapping[str, Any], node_name: str, reason: str, mode: Mode, *, refused: bool = False
    ) -> None:
        """Note on the pod why a target could not take it; the pod, not the process, keeps the memory.

        :param refused: whether it did not even take the chaperon
        """
        ATTEMPTS.labels(mode, "refused").inc()
        self.stopwatch.again(proxy["metadata"]["uid"])
        known, now = failed_targets_of(proxy), self._deps.clock.now()
        limit = bytes_left(proxy["metadata"].get("annotations"))
        value = with_failed_target(known, node_name, reason, now, refused=refused, limit=limit)
        await self._patch(proxy["metadata"], {"annotations": {names.ANNOTATION_ATTEMPTS: value}})

    async def bind(self, pod: Object, node_name: str, mode: Mode) -> None:
        """Bind the pod, and no other of its name, to the virtual node; one that has a node already is left as it is.

        Raises Conflict where it has none: API servers say so, too, where their etcd gave no answer (`assignPod`).
        """
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        ended = self.stopwatch.ending(pod.uid, "bind")
        try:
            await self._client.create_raw(PODS, binding, sub="binding")
        except NotFound:
            return
        except Conflict as error:
            if await self._needs_node(pod):
                log.warning("not bound yet: %s", error)
                raise
            return
        ended()
        # The watch may have been faster than the answer.
        current = self._proxies.store.get(pod.key)
        if current is not None and current.uid == pod.uid and not current.node_name:
            self.bound.add(pod.uid)
        ATTEMPTS.labels(mode, "bound").inc()
        regarding = {"apiVersion": PODS.api_version, "kind": PODS.name, "metadata": metadata}
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
        self._deps.recorder.event(regarding, "Normal", "Scheduled", message)

    async def _needs_node(self, pod: Object) -> bool:
        """Whether the pod is there and has no node, as its API server says and not as the watch does."""
        try:
            raw = await self._client.get_raw(PODS, pod.name, pod.namespace)
        except NotFound:
            return False
        fresh = self._proxies.absorb(raw)
        return fresh.uid == pod.uid and not fresh.node_name

    def warn(self, proxy: Mapping[str, Any], target: Target, reason: str) -> None:
        """Tell, by an event alone, why a pod goes on to another target."""
        self._deps.recorder.event(dict(proxy), "Warning", "FailedScheduling", f"{target.title}: {reason}")

    async def tell_rejections(
        self, proxy: Mapping[str, Any], message: str, ranking: Ranking, *, throttled: bool = True
    ) -> float | None:
        """Tell on the pod why no target takes it.

        :param throttled: whether figures that have changed may wait a while; then this returns for how many seconds
        """
        left = self._figures_due(proxy, message) if throttled else 0.0
        if left > 0:
            return left
        if await self.tell(proxy, message):
            for _, rejection in ranking.rejected:
                REFUSALS.labels(rejection.reason).inc()
        return None

    def _figures_due(self, proxy: Mapping[str, Any], message: str) -> float:
        told = self._told.get(proxy["metadata"]["uid"])
        before = _scheduled(proxy).get("message") or ""
        if told is None or before == message or without_figures(before) != without_figures(message):
            return 0.0
        return told + FIGURES_SECONDS - time.monotonic()

    async def tell(self, proxy: Mapping[str, Any], message: str) -> bool:
        """Tell on the pod why it waits; once, as long as the reason stays the same. Returns whether it was news."""
        if _scheduled(proxy).get("message") == message:
            return False
        now, told = self._deps.clock.now(), (proxy.get("status") or {}).get("conditions")
        conditions = set_condition(told, "PodScheduled", "False", "Unschedulable", message, now)
        changed = find_condition(conditions, "PodScheduled")
        name, namespace, uid = (proxy["metadata"][key] for key in ("name", "namespace", "uid"))
        patch = {"metadata": {"uid": uid}, "status": {"conditions": [changed]}}
        try:
            raw = await self._client.patch_raw(PODS, name, patch, namespace, sub="status", style="strategic")
        except StatusError as error:
            log.info("condition not written: %s", error)
            return False
        self.absorb(self._proxies, raw)
        self._told[uid] = time.monotonic()
        self._deps.recorder.event(dict(proxy), "Warning", "FailedScheduling", message)
        return True


def _scheduled(proxy: Mapping[str, Any]) -> Mapping[str, Any]:
    return condition_of(proxy, "PodScheduled") or {}
