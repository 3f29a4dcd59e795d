"""Prometheus scores: publish results of Prometheus queries about clusters as AddOnPlacementScores.

Watches  ManagedClusters, AddOnPlacementScores, namespaces.
Writes   AddOnPlacementScores with the configured names in the namespaces of all ManagedClusters: when a score has
         changed, and when two of three intervals are over. Events about ManagedClusters whose scores cannot be written.
Each query covers all clusters, and ends before its next run. A cluster without a series loses that score. If a query
fails, its scores stay for three intervals. Targets take no part.
"""

import base64
import logging
import time
from typing import NamedTuple

from prometheus_client import Counter

from agent.api.kinds import MANAGED_CLUSTERS, SECRETS
from agent.base.metrics import REGISTRY
from agent.clusters.addonscores import AGAIN_SECONDS, AddOnScores, CannotSay
from agent.clusters.deps import Deps
from agent.kube.errors import KubeError
from agent.kube.store import Object
from agent.model.addonscore import scores_of
from agent.model.promscore import PrometheusScore
from agent.placement.prometheus_scores.client import NoAnswer, ask
from agent.placement.prometheus_scores.decide import BadAnswer, QueryResult, decide
from agent.runtime.controller import Controller

log = logging.getLogger(__name__)

QUERIES = Counter(
    "flotilla_prometheus_score_queries_total",
    "Queries for scores of clusters, by outcome (`answered`, `failed`).",
    ("score", "outcome"),
    registry=REGISTRY,
)


class Ask(NamedTuple):
    """Key for running the query at this index of the list."""

    number: int


class Tell(NamedTuple):
    """Key for writing the results to an AddOnPlacementScore of a cluster."""

    cluster: str
    resource: str


class PrometheusScoresController(Controller[Ask | Tell]):
    """Controller with queries and written AddOnPlacementScores as keys."""

    name = "promscores"

    def __init__(self, deps: Deps) -> None:
        scores = deps.settings.prometheus_scores
        super().__init__(workers=len(scores) + 4)
        self._deps = deps
        self._timeout = deps.settings.request_timeout
        self._due = [time.monotonic()] * len(scores)
        self._asked = [QueryResult(score, due) for score, due in zip(scores, self._due, strict=True)]
        self._resources = {score.resource for score in scores}
        self._clusters = deps.placement.watch(MANAGED_CLUSTERS)
        self._clusters.subscribe(self._cluster_changed, self._turned)
        self._scores = AddOnScores(deps, self._score_changed, self._turned)
        self.watch(deps.namespaces.informer, lambda namespace: self._all_of(namespace.name))
        self._turned()

    async def reconcile(self, key: Ask | Tell) -> float | None:
        """Run one query, or write one cluster's scores."""
        if self._clusters.store is None or not self._scores.known:
            return None
        return await (self._ask(key.number) if isinstance(key, Ask) else self._tell(key))

    async def _ask(self, index: int) -> float:
        wait = self._due[index] - time.monotonic()
        if wait > 0:
            return wait
        score = self._asked[index].score
        self._due[index] = time.monotonic() + score.interval
        name = f"{score.resource}/{score.name}"
        try:
            values = await ask(score, await self._token(score), min(self._timeout, score.interval))
        except (NoAnswer, BadAnswer) as error:
            if self._asked[index].error != str(error):
                log.warning("score %s: %s", name, error)
            self._asked[index] = self._asked[index].failed(str(error))
            QUERIES.labels(name, "failed").inc()
        else:
            self._asked[index] = self._asked[index].answered(values, time.monotonic())
            QUERIES.labels(name, "answered").inc()
        for cluster in self._clusters.store or ():
            self.queue.add(Tell(cluster.name, score.resource))
        return max(0.0, self._due[index] - time.monotonic())

    async def _token(self, score: PrometheusScore) -> str:
        """Return the token of a query; empty if it needs none. The Secret has no watch, and is read each time.

        :raises NoAnswer: if the Secret cannot be read or has no token
        """
        if score.token is None:
            return ""
        namespace = self._deps.lease.namespace if self._deps.lease is not None else self._deps.settings.namespace
        where = f"key {score.token.key} of Secret {namespace}/{score.token.name}"
        try:
            secret = await self._deps.local.client.get(SECRETS, score.token.name, namespace)
            return base64.b64decode((secret.get("data") or {})[score.token.key], validate=True).decode("ascii").strip()
        except KubeError as error:
            raise NoAnswer(f"the token cannot be read, {where}: {error}") from error
        except (KeyError, ValueError):
            raise NoAnswer(f"there is no token in {where}: put one there") from None

    async def _tell(self, key: Tell) -> float | None:
        cluster = self._clusters.store.get(("", key.cluster)) if self._clusters.store is not None else None
        if cluster is None or cluster.deleting:
            return None
        asked = [each for each in self._asked if each.score.resource == key.resource]
        told = scores_of(self._scores.status(*key))
        wanted = decide(key.cluster, asked, told, time.monotonic())
        if wanted is None:
            return None
        try:
            return (await self._scores.say(*key, wanted)).again
        except CannotSay as error:
            self._deps.recorder.event(cluster.decode(), "Warning", "ScoresBlocked", str(error))
            return AGAIN_SECONDS

    def _turned(self) -> None:
        for index in range(len(self._asked)):
            self.queue.add(Ask(index))

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            for key in self._all_of(new.name):
                self.queue.add(key)

    def _score_changed(self, cluster: str, name: str) -> None:
        if name in self._resources:
            self.queue.add(Tell(cluster, name))

    def _all_of(self, cluster: str) -> list[Ask | Tell]:
        return [Tell(cluster, resource) for resource in self._resources]
