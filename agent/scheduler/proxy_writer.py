"""Proxy writer: claims proxy pods, binds them, and writes failed targets and reasons for waiting into their status."""

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import condition_of, find_condition, set_condition
from agent.api.kinds import PODS
from agent.clusters.copies.field_owners import untracked
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import Conflict, NotFound, StatusError
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import podstate
from agent.ranking.explain import without_figures
from agent.ranking.rank import Ranking
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.failed_targets import bytes_left, failed_targets_of, with_failed_target
from agent.scheduler.metrics import ATTEMPTS, REFUSALS, Stopwatch
from agent.scheduler.modes import Mode

log = logging.getLogger(__name__)

FIGURES_SECONDS = 30.0
"""Minimum interval between updates of a waiting pod's condition that differ only in numbers: free capacity changes all
the time.
"""


class ProxyWriter:
    """All writes to proxy pods. State held only in this process saves work; losing it on a restart does no harm."""

    def __init__(self, deps: Deps, cache: SchedulerCache) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._proxies = cache.proxies
        self._assumed = cache.assumed
        self.stopwatch = Stopwatch()
        self.absorbing = False
        """True while the response to one of our own writes enters the store, so that subscribers do not requeue the
        pod.
        """
        self.bound: set[str] = set()
        """UIDs of pods bound by us that the watch still shows without a node."""
        self._told: dict[str, float] = {}
        """When each pod's PodScheduled condition was written last, by UID, on the monotonic clock."""

    def forget(self, uid: str) -> None:
        """Drop all state of a pod that needs no target any longer."""
        self.bound.discard(uid)
        self._told.pop(uid, None)
        self.stopwatch.end(uid)

    def absorb(self, informer: Informer, raw: bytes) -> Object:
        """Put the response to our own write into the store without waking subscribers."""
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
        """Claim the pod for one target; in mode `reserve` also for one chaperon. Return None if the pod has been
        deleted.

        The patch is guarded by the pod's resourceVersion and always raises it, even if the claim itself is unchanged:
        the claim of a deposed leader then fails. It leaves only this target's finalizer.

        :param run: name of the group's start that the claim belongs to; empty if none
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
        """Remove the claim, unless the pod has changed since it was read."""
        annotations = {names.ANNOTATION_CLAIM: None, names.ANNOTATION_CLAIM_UID: None}
        await self._patch(pod.decode()["metadata"], {"resourceVersion": pod.version, "annotations": annotations})

    async def remember(
        self, proxy: Mapping[str, Any], node_name: str, reason: str, mode: Mode, *, refused: bool = False
    ) -> None:
        """Record on the pod why a target could not take it; the record survives a restart of the agent.

        :param refused: True if the target refused the chaperon itself
        """
        ATTEMPTS.labels(mode, "refused").inc()
        self.stopwatch.again(proxy["metadata"]["uid"])
        known, now = failed_targets_of(proxy), self._deps.clock.now()
        limit = bytes_left(proxy["metadata"].get("annotations"))
        value = with_failed_target(known, node_name, reason, now, refused=refused, limit=limit)
        await self._patch(proxy["metadata"], {"annotations": {names.ANNOTATION_ATTEMPTS: value}})

    async def bind(self, pod: Object, node_name: str, mode: Mode) -> None:
        """Bind the pod with this UID to the virtual node; do nothing if it already has a node or has been deleted.

        :raises Conflict: if the pod still has no node: API servers also answer 409 when etcd gave no answer
        (`assignPod`)
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
        # The watch may have been faster than the response.
        current = self._proxies.store.get(pod.key)
        if current is not None and current.uid == pod.uid and not current.node_name:
            self.bound.add(pod.uid)
        ATTEMPTS.labels(mode, "bound").inc()
        regarding = {"apiVersion": PODS.api_version, "kind": PODS.name, "metadata": metadata}
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
        self._deps.recorder.event(regarding, "Normal", "Scheduled", message)

    async def _needs_node(self, pod: Object) -> bool:
        """Return True if the API server still has the pod, without a node; reads it live, as the watch may be late."""
        try:
            raw = await self._client.get_raw(PODS, pod.name, pod.namespace)
        except NotFound:
            return False
        fresh = self._proxies.absorb(raw)
        return fresh.uid == pod.uid and not fresh.node_name

    def warn(self, proxy: Mapping[str, Any], target: Target, reason: str) -> None:
        """Emit an event, and write no condition, on why a pod moves on to another target."""
        self._deps.recorder.event(dict(proxy), "Warning", "FailedScheduling", f"{target.title}: {reason}")

    async def tell_rejections(
        self, proxy: Mapping[str, Any], message: str, ranking: Ranking, *, throttled: bool = True
    ) -> float | None:
        """Record on the pod why no target takes it.

        :param throttled: True if changed numbers alone may be written later
        :return: seconds until the condition may be written; None if nothing is left to write
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
        """Set the PodScheduled condition to False and emit an event. Return False if the message is unchanged or not
        written.
        """
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
