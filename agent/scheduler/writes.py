"""What the proxy scheduler writes in either mode: chaperons, memory of attempts, bindings, reasons for waiting."""

import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition, set_condition
from agent.api.kinds import CHAPERONS, PODS
from agent.clusters import chaperons
from agent.clusters.deps import Deps
from agent.clusters.field_owners import untracked
from agent.clusters.target import Target
from agent.kube.errors import AlreadyExists, Conflict, NotFound, StatusError, Unreachable, Unsent
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.delegatepod import chaperon as make_chaperon
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.chaperon_refusal import FAILING, creates_no_pods, note, untaken
from agent.scheduler.failed_targets import failed_targets_of, with_failed_target
from agent.scheduler.metrics import ATTEMPTS, REFUSALS, Stopwatch
from agent.scheduler.modes import Mode
from agent.scheduling.ranking import Ranking

log = logging.getLogger(__name__)

CROWDED_SECONDS = 0.1
"""When to look again at what does not join those that wait for a target to answer."""

FIGURES_SECONDS = 30.0
"""How long a pod that waits goes without other figures: what is free changes all the time where others come and go."""

_FIGURE = re.compile(r"\d[\d.]*[A-Za-z]*")


class Foreign(Exception):
    """A chaperon of the name is there and belongs to another pod."""


class Writes:
    """What the process knows beyond the API objects only saves work or widens the choice; losing it loses nothing."""

    def __init__(self, deps: Deps, cache: SchedulerCache) -> None:
        self._deps = deps
        self._client = deps.local.client
        self._proxies = cache.proxies
        self._assumed = cache.assumed
        self._changing: Counter[str] = Counter()
        self._follows = cache.injected_follow
        self._made: tuple[tuple[str, str, bool, str, bool], dict[str, Any]] = (("", "", False, "", False), {})
        """The chaperon made last, and of what."""
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

    def crowded_by_changes(self, target: Target) -> bool:
        """Whether so many changes of chaperons wait for a target that others should not join them."""
        return self._changing[target.node_name] >= self.most(target.node_name)

    def most(self, node_name: str) -> int:
        """How many pods may wait for a target to answer.

        One that is slow, or has just gone silent, must not hold all those who work on pods.
        """
        target = self._deps.targets.by_node(node_name)
        all_of_us = self._deps.settings.max_in_flight
        return max(1, all_of_us // 4 if target is not None and target.slow else all_of_us * 3 // 4)

    async def annotate(self, target: Target, chaperon: Object, key: str, value: str, version: str) -> None:
        """Write one annotation of a chaperon, guarded by its UID and a version of it; nothing if it is gone."""
        body = {"metadata": {"uid": chaperon.uid, "resourceVersion": version, "annotations": {key: value}}}
        self._changing[target.node_name] += 1
        try:
            raw = await target.port.patch_raw(CHAPERONS, chaperon.name, body, chaperon.namespace)
        except NotFound:
            return
        except Unreachable:
            target.probe_now()
            raise
        finally:
            self._changing[target.node_name] -= 1
        self.absorb(target.chaperons, raw)

    async def send(self, proxy: dict[str, Any], target: Target, *, reserve: bool = False) -> None:
        """Send the chaperon; an answer that it is there already is as good (ruling 2).

        :raises InvalidPod: if the proxy pod cannot be made into one
        :raises Foreign: if another pod's is in the way
        :raises ChaperonRefused: if the target refuses it
        :raises Unsent: if it has not left: there is no connection, or the target is being removed
        """
        manifest = self._manifest(proxy, target, reserve=reserve)
        metadata, sent = proxy["metadata"], False
        self.stopwatch.lap(metadata["uid"], "queue")
        if self._deps.sending.is_closed(target):
            raise Unsent(f"target {target.title} is being removed")
        with self._deps.sending.holding(target, (metadata["namespace"], metadata["name"]), metadata["uid"]):
            try:
                await self._deps.prerequisites.ensure(proxy, target)
                if not target.ready:
                    # Another cluster may answer in its place by now.
                    raise Unsent(target.record.message)
                sent = True
                await self._post(proxy, target, manifest)
            except AlreadyExists:
                await self._adopt(target, proxy, manifest["metadata"])
            except Unreachable:
                target.probe_now()
                raise
            except StatusError as error:
                raise untaken(proxy, target, error, sent=sent) or error from error
        self.stopwatch.lap(metadata["uid"], "candidate")

    async def _post(self, proxy: dict[str, Any], target: Target, manifest: dict[str, Any]) -> None:
        metadata = proxy["metadata"]
        self._deps.chaperons.expect(target, metadata["uid"])
        with self._deps.sending.request(target, (metadata["namespace"], metadata["name"]), metadata["uid"]):
            self.absorb(target.chaperons, await target.port.create_raw(CHAPERONS, manifest))

    def warn(self, proxy: Mapping[str, Any], target: Target, reason: str) -> None:
        """Tell, by an event alone, why a pod goes on to another target."""
        self._deps.recorder.event(dict(proxy), "Warning", "FailedScheduling", f"{target.title}: {reason}")

    def _manifest(self, proxy: dict[str, Any], target: Target, *, reserve: bool) -> dict[str, Any]:
        """The candidates of a pod are the same in all targets, and are mostly made one after the other."""
        metadata, settings = proxy["metadata"], self._deps.settings
        source_api = "" if target.is_self else settings.source_api
        injected = self._follows(metadata["namespace"])
        made_of = (metadata["uid"], metadata["resourceVersion"], reserve, source_api, injected)
        if self._made[0] != made_of:
            made = make_chaperon(
                proxy,
                cluster_name=settings.cluster_name,
                cluster_uid=self._deps.cluster_uid,
                reserve=reserve,
                source_api=source_api,
                injected=injected,
            )
            self._made = (made_of, made)
        return self._made[1]

    async def _adopt(self, target: Target, proxy: dict[str, Any], metadata: dict[str, Any]) -> None:
        moment, uid = self._deps.sending.moment, proxy["metadata"]["uid"]
        raw = await target.port.get_raw(CHAPERONS, metadata["name"], metadata["namespace"])
        if Object(CHAPERONS, raw).labels.get(names.LABEL_PARENT_UID) != uid:
            raise Foreign(f"PodChaperon {metadata['name']} exists and belongs to another pod")
        target.chaperons.absorb(raw)
        self._deps.sending.read(target, moment, uid)

    async def patch(self, metadata: Mapping[str, Any], body: dict[str, Any]) -> Object:
        """Change a proxy pod's metadata, guarded by its UID."""
        body = {"metadata": {"uid": metadata["uid"], **body}}
        raw = await self._client.patch_raw(PODS, metadata["name"], body, metadata["namespace"])
        return self.absorb(self._proxies, raw)

    def absorb(self, informer: Informer, raw: bytes) -> Object:
        """Take the answer to a write of ours that nobody needs to be woken for."""
        self.absorbing = True
        try:
            return informer.absorb(raw)
        finally:
            self.absorbing = False

    async def claim(self, pod: Object, target: Target, chaperon_uid: str = "", run: str = "") -> Object | None:
        """Promise the pod to one target, in mode `reserve` to one chaperon there. None when the pod is gone.

        One write, guarded by the pod's version, which grows by it, also where the claim was the same before: a deposed
        leader fails here. Only this target's finalizer is left.

        :param run: the start of its group, empty for none
        """
        annotations: dict[str, str | None] = {names.ANNOTATION_CLAIM: target.node_name}
        if chaperon_uid != pod.known.claim_uid:
            annotations[names.ANNOTATION_CLAIM_UID] = chaperon_uid or None
        if pod.known.claim == target.node_name and not chaperon_uid:
            annotations[names.ANNOTATION_CLAIM_RENEWED] = secrets.token_hex(4)
        elif pod.known.claim_renewed:
            annotations[names.ANNOTATION_CLAIM_RENEWED] = None
        if run:
            annotations[names.ANNOTATION_GROUP_RUN] = run
        kept = [name for name in pod.finalizers if not name.startswith(names.PREFIX)]
        change = {
            "resourceVersion": pod.version,
            "finalizers": [*kept, target.finalizer],
            "annotations": annotations,
            **untracked(applied=pod.applied),
        }
        self._assumed.assume(pod, target.node_name)
        try:
            return await self.patch({"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}, change)
        except NotFound:
            return None
        finally:
            self._assumed.retract(pod)

    async def remember(
        self, proxy: Mapping[str, Any], node_name: str, reason: str, mode: Mode, *, untaken: bool = False
    ) -> None:
        """Note on the pod why a target could not take it; the pod, not the process, keeps the memory.

        :param untaken: whether it did not even take the chaperon
        """
        ATTEMPTS.labels(mode, "refused").inc()
        self.stopwatch.again(proxy["metadata"]["uid"])
        value = with_failed_target(failed_targets_of(proxy), node_name, reason, self._deps.clock.now(), untaken=untaken)
        await self.patch(proxy["metadata"], {"annotations": {names.ANNOTATION_ATTEMPTS: value}})

    async def give_up(
        self, proxy: Mapping[str, Any], target: Target, chaperon: Mapping[str, Any], reason: str, mode: Mode
    ) -> None:
        """Remember why a target could not take the pod, then delete the chaperon there, unless it has changed."""
        failing = creates_no_pods(chaperon)
        if failing:
            note(proxy, target, FAILING, reason)
            self.warn(proxy, target, reason)
        await self.remember(proxy, target.node_name, reason, mode, untaken=failing)
        await chaperons.delete(target, chaperon, as_it_was=True)

    async def bind(self, pod: Object, node_name: str, mode: Mode) -> None:
        """Bind the pod, and no other of its name, to the virtual node."""
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
        except (NotFound, Conflict):
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

    async def refuse(
        self, proxy: Mapping[str, Any], message: str, ranking: Ranking, *, hush: bool = True
    ) -> float | None:
        """Tell on the pod why no target takes it.

        :param hush: whether figures that have changed may wait a while; then this returns for how many seconds
        """
        left = self._hushed(proxy, message) if hush else 0.0
        if left > 0:
            return left
        if await self.say(proxy, message):
            for _, rejection in ranking.rejected:
                REFUSALS.labels(rejection.reason).inc()
        return None

    def _hushed(self, proxy: Mapping[str, Any], message: str) -> float:
        told = self._told.get(proxy["metadata"]["uid"])
        before = _scheduled(proxy).get("message") or ""
        if told is None or before == message or _FIGURE.sub("", before) != _FIGURE.sub("", message):
            return 0.0
        return told + FIGURES_SECONDS - time.monotonic()

    async def say(self, proxy: Mapping[str, Any], message: str) -> bool:
        """Tell on the pod why it waits; once, as long as the reason stays the same. Returns whether it was news."""
        if _scheduled(proxy).get("message") == message:
            return False
        conditions = set_condition(
            (proxy.get("status") or {}).get("conditions"),
            "PodScheduled",
            "False",
            "Unschedulable",
            message,
            self._deps.clock.now(),
        )
        metadata = proxy["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
        try:
            raw = await self._client.patch_raw(PODS, metadata["name"], patch, metadata["namespace"], sub="status")
        except StatusError as error:
            log.info("condition not written: %s", error)
            return False
        self.absorb(self._proxies, raw)
        self._told[metadata["uid"]] = time.monotonic()
        self._deps.recorder.event(dict(proxy), "Warning", "FailedScheduling", message)
        return True


def _scheduled(proxy: Mapping[str, Any]) -> Mapping[str, Any]:
    return find_condition((proxy.get("status") or {}).get("conditions"), "PodScheduled") or {}
