"""Usage scores: publish each cluster's free capacity as AddOnPlacementScores, for Placements that use them.

Watches  Targets and ClusterTargets and their state, ClusterSummaries of targets, AddOnPlacementScores, namespaces.
Writes   one AddOnPlacementScore `resource-usage-score` in the namespace of each ManagedCluster that has a Target:
         when a score has changed or two thirds of its validity are over, at most every 2 s. The condition UsageScores
         of Targets, after a first obstacle.
Absent target: its cluster loses its scores at once. While a target connects, its scores stay until they expire.
Nothing is written without Placements. If another controller evaluates them, usage-scores=true is needed.
"""

import time
from collections.abc import Iterable

from agent.api.conditions import condition_of
from agent.api.names.ocm import USAGE_SCORES
from agent.clusters.addonscores import AGAIN_SECONDS, AddOnScores, CannotSay
from agent.clusters.deps import Deps
from agent.clusters.managed_cluster import INDEX, by_managed_cluster, managed_cluster
from agent.clusters.target import State, Target
from agent.clusters.target_condition import TargetCondition, Words
from agent.kube.store import Object
from agent.placement.usage_scores.decide import NOT_TOLD, Told, decide
from agent.runtime.controller import Controller

CONDITION = "UsageScores"
PAUSE_SECONDS = 2.0
_WRITTEN = Words("True", "Written", "scores of usage are written")
_NOT_TOLD = Words("False", NOT_TOLD.reason, NOT_TOLD.message)


class UsageScoresController(Controller[str]):
    """Controller with names of ManagedClusters as keys."""

    name = "usagescores"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._setting = deps.settings.usage_scores
        self._validity = deps.settings.score_validity
        self._maxima = deps.settings.score_maxima
        self._written_at: dict[str, float] = {}
        self._condition = TargetCondition(deps, CONDITION)
        self._targets = self._condition.objects
        for informer in self._targets.informers:
            informer.store.index(INDEX, by_managed_cluster)
            self.watch(informer, by_managed_cluster)
        self.watch(deps.namespaces.informer, lambda namespace: self._clusters_of(namespace.name))
        self._scores = AddOnScores(deps, self._score_changed, self._all)
        deps.placement.on_turn(self._all)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)

    async def reconcile(self, key: str) -> float | None:
        """Write the scores of one cluster if they differ."""
        if not self._wanted or not self._scores.known:
            return None
        objects = self._leading_to(key)
        told = [self._told(obj) for obj in objects]
        wait = self._written_at.get(key, -PAUSE_SECONDS) + PAUSE_SECONDS - time.monotonic()
        if wait > 0 and any(each.state == "ready" for each in told):
            return wait
        wanted = decide(told, self._maxima, self._validity)
        if wanted is None:
            return None
        try:
            writing = await self._scores.say(key, USAGE_SCORES, wanted)
        except CannotSay as error:
            await self._tell(objects, Words("False", error.reason, str(error)))
            return AGAIN_SECONDS
        if writing.patch is not None:
            self._written_at[key] = time.monotonic()
        if wanted.reason != "TargetLost":
            await self._tell(objects, _NOT_TOLD if wanted == NOT_TOLD else _WRITTEN)
        return writing.again

    @property
    def _wanted(self) -> bool:
        if self._setting == "auto":
            return self._deps.placement.mode == "serve"
        return self._setting == "true"

    def _clusters_of(self, namespace: str) -> tuple[str, ...]:
        """Return the cluster whose scores belong in a namespace: the namespace may just have been created."""
        return (namespace,) if self._leading_to(namespace) else ()

    def _leading_to(self, cluster: str) -> list[Object]:
        found = [obj for informer in self._targets.informers for obj in informer.store.by_index(INDEX, cluster)]
        return sorted((obj for obj in found if not obj.deleting), key=lambda obj: obj.key)

    def _told(self, obj: Object) -> Told:
        target = self._deps.targets.get(obj.key)
        if target is None:
            return _of_unconnected(obj)
        if target.record.state is State.CONNECTING:
            return Told("unknown")
        if not target.ready:
            return Told("lost", target.record.message)
        if target.agent is not None and not target.agent.usable:
            return Told("lost", target.agent.message)
        summary = target.summary
        if summary is None:
            return Told("unknown")
        return Told("ready", summary=summary.annotations)

    async def _tell(self, objects: Iterable[Object], words: Words) -> None:
        for obj in objects:
            await self._condition.say(obj, words)

    def _attached(self, target: Target) -> None:
        target.summaries.subscribe(lambda old, new: self._target_changed(target))

    def _target_changed(self, target: Target) -> None:
        obj = self._targets.get(target.key)
        for cluster in by_managed_cluster(obj) if obj is not None else ():
            self.queue.add(cluster)

    def _score_changed(self, cluster: str, name: str) -> None:
        if name == USAGE_SCORES:
            self.queue.add(cluster)

    def _all(self) -> None:
        for cluster in {*map(managed_cluster, self._targets), *(cluster for cluster, _ in self._scores.ours())} - {""}:
            self.queue.add(cluster)


def _of_unconnected(obj: Object) -> Told:
    """Return the state of an unconnected Target: lost if Ready is False for another reason than connecting."""
    ready = condition_of(obj.decode(), "Ready")
    if ready is None or ready["status"] != "False" or ready["reason"] == State.CONNECTING:
        return Told("unknown")
    return Told("lost", ready["message"])
