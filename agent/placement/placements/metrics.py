"""Metrics of Placements that this agent evaluates."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.base.metrics import REGISTRY
from agent.kube.store import Key
from agent.ranking.placing.outcome import Outcome

SCORED = 20
"""Maximum number of clusters of a Placement with score metrics: each score is a separate series."""


class _Placement(NamedTuple):
    clusters: int
    scores: Mapping[str, int]
    """Scores by cluster; empty if there are more than `SCORED` clusters."""


class Measured(Collector):
    """Collector of each Placement's clusters and scores, which builds its series at each scrape."""

    def __init__(self) -> None:
        self._known: dict[Key, _Placement] = {}

    def note(self, key: Key, outcome: Outcome, kept: Mapping[str, int]) -> None:
        """Record an evaluation.

        :param kept: scores by cluster of the existing decisions, which a misconfigured Placement keeps
        """
        scores = {cluster: decision.score for cluster, decision in outcome.decided.items()}
        found = kept if outcome.misconfigured else scores
        self._known[key] = _Placement(len(found), found if len(found) <= SCORED else {})

    def forget(self, key: Key) -> None:
        """Remove a Placement that was deleted or is no longer evaluated."""
        self._known.pop(key, None)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the names and labels of the metrics, for prometheus_client."""
        return self._empty()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the values of the metrics, for prometheus_client."""
        clusters, scores = self._empty()
        for key, found in list(self._known.items()):
            clusters.add_metric(key, found.clusters)
            for cluster, score in found.scores.items():
                scores.add_metric((*key, cluster), score)
        return clusters, scores

    def _empty(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        clusters = "Clusters that a Placement has decided."
        scores = f"Score of a cluster that a Placement has decided, if it has decided at most {SCORED}."
        return (
            GaugeMetricFamily("flotilla_placement_clusters", clusters, labels=("namespace", "placement")),
            GaugeMetricFamily("flotilla_placement_score", scores, labels=("namespace", "placement", "cluster")),
        )


MEASURED = Measured()
REGISTRY.register(MEASURED)
