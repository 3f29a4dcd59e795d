"""Proxy scheduler: claim a target for each proxy pod, send the chaperon there, bind when the delegate has a node.

Watches  proxy pods and virtual nodes here, our chaperons and the ClusterSummary in targets, states of targets.
Writes   claim and attempts on the proxy pod, its binding and PodScheduled condition; creates and deletes chaperons.
Absent target: gets no new pods; a pod claimed by it waits, because its chaperon may be there.
"""

import logging
from collections import Counter
from typing import Any

from agent.api import names
from agent.api.conditions import set_condition
from agent.api.kinds import CHAPERONS, NODES, PODS
from agent.clusters.target import Target
from agent.controllers.deps import Deps
from agent.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    StatusError,
    Unreachable,
    Unsent,
)
from agent.kube.store import Key, Object
from agent.model.delegatepod import chaperon as make_chaperon
from agent.model.errors import InvalidPod
from agent.runtime.controller import Controller
from agent.scheduler import decide as steps
from agent.scheduler.gather import attempts_annotation, attempts_of, demand_of
from agent.scheduler.places import Places
from agent.scheduling.ranking import Load, Ranking, explain, rank
from agent.scheduling.snapshot import Demand

log = logging.getLogger(__name__)

REFUSED_RETRY_SECONDS = 30.0


class ProxyScheduler(Controller[Key]):
    """One reconciliation per proxy pod that is not bound; many at the same time."""

    name = "scheduler"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self.workers = deps.settings.max_in_flight  # type: ignore[misc]
        self._deps = deps
        self._client = deps.local.client
        self._waiting: set[Key] = set()
        self._choosing: Counter[str] = Counter()
        self._unsent: dict[str, str] = {}
        """UIDs of pods to the virtual node they are claimed for, as long as no chaperon can have left for it."""
        self._bound: set[str] = set()
        """UIDs of pods bound by us that the watch still shows without a node."""
        self._proxies = deps.local.informer(PODS, fields=f"spec.schedulerName={names.SCHEDULER_PROXY}")
        self._proxies.store.index("place", _place_of)
        nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self._places = Places(deps.targets, nodes, self._world_changed)
        self.watch(nodes, lambda node: ())
        self.watch(self._proxies, self._wants_target)
        deps.chaperons.subscribe(self._chaperon_changed)

    def _wants_target(self, pod: Object) -> tuple[Key, ...]:
        if _open(pod):
            return (pod.key,)
        self._bound.discard(pod.uid)
        self._unsent.pop(pod.uid, None)
        return ()

    def _world_changed(self) -> None:
        for key in self._waiting:
            self.queue.add(key)
        self._waiting.clear()

    def _chaperon_changed(self, parent: Key) -> None:
        pod = self._proxies.store.get(parent)
        if pod is not None and not pod.node_name:
            self.queue.add(parent)

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for one pod."""
        self._waiting.discard(key)
        pod = self._proxies.store.get(key)
        if pod is None or pod.uid in self._bound or not _open(pod):
            return None
        proxy = pod.decode()
        if proxy["spec"].get("schedulingGates"):
            return None
        try:
            demand = demand_of(proxy)
        except InvalidPod as error:
            await self._say(proxy, f"{error}")
            return None
        ranking = rank(demand, self._places.serving(key[0]), self._loads())
        claim = (proxy["metadata"].get("annotations") or {}).get(names.ANNOTATION_CLAIM, "")
        view = self._view(pod, proxy, claim, demand, ranking)
        return await self._take(proxy, view, demand, steps.decide(view))

    def _loads(self) -> dict[str, Load]:
        return {
            target.node_name: Load(
                self._proxies.store.count("place", target.node_name) + self._choosing[target.node_name]
            )
            for target in self._deps.targets
        }

    def _view(self, pod: Object, proxy: dict[str, Any], claim: str, demand: Demand, ranking: Ranking) -> steps.View:
        target = self._deps.targets.by_node(claim)
        placed = [
            each.chaperon
            for each in self._deps.chaperons.of(pod.key)
            if each.target is target and each.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid
        ]
        return steps.View(
            claim=claim,
            claim_known=target is not None,
            claim_ready=target is not None and target.ready,
            claim_held=any(name.startswith(names.PREFIX) for name in pod.finalizers),
            claim_unsent=bool(claim) and self._unsent.get(pod.uid) == claim,
            claim_state=target.record.message if target is not None else "",
            chaperon=placed[0].decode() if placed else None,
            attempts=demand.attempts,
            ranking=ranking,
        )

    async def _take(self, proxy: dict[str, Any], view: steps.View, demand: Demand, step: steps.Step) -> float | None:
        match step:
            case steps.Bind():
                await self._bind(proxy, view.claim)
            case steps.Create():
                return await self._create(proxy, view.claim)
            case steps.Claim(node_name):
                return await self._claim(proxy, node_name)
            case steps.GiveUp(reason):
                await self._give_up(proxy, view, reason)
            case steps.Wait(message):
                if message or view.chaperon is None:
                    self._waiting.add((proxy["metadata"]["namespace"], proxy["metadata"]["name"]))
                    reasons = {**demand.attempts, view.claim: message} if message else demand.attempts
                    await self._say(proxy, explain(view.ranking, reasons))
        return None

    async def _claim(self, proxy: dict[str, Any], node_name: str) -> float | None:
        """Leave only one target's finalizer on the pod, guarded by its version: a deposed leader fails here."""
        target = self._deps.targets.by_node(node_name)
        if target is None:
            return 0.1
        metadata = proxy["metadata"]
        kept = [name for name in metadata.get("finalizers") or () if not name.startswith(names.PREFIX)]
        patch = {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "uid": metadata["uid"],
                "finalizers": [*kept, target.finalizer],
                "annotations": {names.ANNOTATION_CLAIM: node_name},
            }
        }
        self._choosing[node_name] += 1
        try:
            raw = await self._client.patch_raw(PODS, metadata["name"], patch, metadata["namespace"])
        except NotFound:
            return None
        finally:
            self._choosing[node_name] -= 1
        self._unsent[metadata["uid"]] = node_name
        self._proxies.absorb(raw)
        return await self._create(Object(PODS, raw).decode(), node_name)

    async def _create(self, proxy: dict[str, Any], node_name: str) -> float | None:
        """Send the chaperon; an answer that it is there already is as good (ruling 2)."""
        target = self._deps.targets.by_node(node_name)
        if target is None:
            return 0.1
        try:
            manifest = make_chaperon(
                proxy, cluster_name=self._deps.settings.cluster_name, cluster_uid=self._deps.cluster_uid
            )
        except InvalidPod as error:
            await self._say(proxy, str(error))
            return None
        unsent = self._unsent.pop(proxy["metadata"]["uid"], None)
        try:
            target.chaperons.absorb(await target.cluster.client.create_raw(CHAPERONS, manifest))
        except AlreadyExists:
            await self._adopt(target, proxy, manifest)
        except Unsent:
            if unsent == node_name:
                self._unsent[proxy["metadata"]["uid"]] = node_name
            target.doubt()
            raise
        except Unreachable:
            target.doubt()
            raise
        except (Forbidden, Invalid, NotFound) as error:
            await self._say(proxy, f"{target.title}: cannot create PodChaperon: {error}")
            return await self._remember(proxy, node_name, str(error))
        return None

    async def _adopt(self, target: Target, proxy: dict[str, Any], manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        raw = await target.cluster.client.get_raw(CHAPERONS, metadata["name"], metadata["namespace"])
        if Object(CHAPERONS, raw).labels.get(names.LABEL_PARENT_UID) == proxy["metadata"]["uid"]:
            target.chaperons.absorb(raw)
        else:
            message = f"PodChaperon {metadata['name']} exists and belongs to another pod"
            await self._remember(proxy, target.node_name, message)

    async def _remember(self, proxy: dict[str, Any], node_name: str, reason: str) -> float:
        """Note on the pod why a target could not take it; the pod, not the process, keeps the memory."""
        metadata = proxy["metadata"]
        known = attempts_of(proxy)
        if known.get(node_name) != reason:
            patch = {
                "metadata": {
                    "uid": metadata["uid"],
                    "annotations": {names.ANNOTATION_ATTEMPTS: attempts_annotation(known, node_name, reason)},
                }
            }
            self._proxies.absorb(await self._client.patch_raw(PODS, metadata["name"], patch, metadata["namespace"]))
        return REFUSED_RETRY_SECONDS

    async def _give_up(self, proxy: dict[str, Any], view: steps.View, reason: str) -> None:
        target = self._deps.targets.by_node(view.claim)
        if target is None or view.chaperon is None:
            return
        await self._remember(proxy, view.claim, reason)
        metadata = view.chaperon["metadata"]
        try:
            await target.cluster.client.delete(
                CHAPERONS, metadata["name"], metadata["namespace"], uid=metadata["uid"], propagation="Foreground"
            )
        except (NotFound, Conflict, Gone):
            return
        except Unreachable:
            target.doubt()
            raise

    async def _bind(self, proxy: dict[str, Any], node_name: str) -> None:
        metadata = proxy["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        try:
            await self._client.create_raw(PODS, binding, sub="binding")
        except (NotFound, Conflict):
            return
        self._bound.add(metadata["uid"])
        message = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node_name}"
        self._deps.recorder.event(proxy, "Normal", "Scheduled", message)

    async def _say(self, proxy: dict[str, Any], message: str) -> None:
        """Tell on the pod why it waits; once, as long as the reason stays the same."""
        conditions = (proxy.get("status") or {}).get("conditions") or []
        current: dict[str, Any] = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
        if current.get("message") == message:
            return
        conditions = set_condition(
            conditions, "PodScheduled", "False", "Unschedulable", message, self._deps.clock.now()
        )
        metadata = proxy["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
        try:
            raw = await self._client.patch_raw(PODS, metadata["name"], patch, metadata["namespace"], sub="status")
        except StatusError as error:
            log.info("condition not written: %s", error)
            return
        self._proxies.absorb(raw)
        self._deps.recorder.event(proxy, "Warning", "FailedScheduling", message)


def _open(pod: Object) -> bool:
    """Whether a pod still wants a target."""
    return not (pod.deleting or pod.node_name or pod.phase in ("Succeeded", "Failed"))


def _place_of(pod: Object) -> tuple[str, ...]:
    if pod.phase in ("Succeeded", "Failed"):
        return ()
    place = pod.node_name or pod.annotations.get(names.ANNOTATION_CLAIM, "")
    return (place,) if place else ()
