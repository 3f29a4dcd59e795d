"""What is measured of Placements that are evaluated here."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.base.metrics import REGISTRY
from agent.kube.store import Key
from agent.ranking.placing.outcome import Outcome

SCORED = 20
"""Scores are told of Placements with at most so many clusters: each is a series of its own."""


class _Placement(NamedTuple):
    clusters: int
    scores: Mapping[str, int]
    """By cluster; none of many."""


class Measured(Collector):
    """The clusters of each Placement and their scores; series are made when they are asked for, and not kept."""

    def __init__(self) -> None:
        self._known: dict[Key, _Placement] = {}

    def note(self, key: Key, outcome: Outcome, kept: Mapping[str, int]) -> None:
        """A Placement has been evaluated; of one that is misconfigured the last decisions stay.

        :param kept: the clusters of its decisions as they are, with their scores
        """
        scores = {cluster: decision.score for cluster, decision in outcome.decided.items()}
        found = kept if outcome.misconfigured else scores
        self._known[key] = _Placement(len(found), found if len(found) <= SCORED else {})

    def forget(self, key: Key) -> None:
        """A Placement is gone, or is none of ours any more."""
        self._known.pop(key, None)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The metrics' names and labels, for prometheus_client."""
        return self._empty()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The metrics' values, for prometheus_client."""
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
