"""What is measured of Placements that are evaluated here."""

from prometheus_client import Gauge

from agent.base.metrics import REGISTRY
from agent.kube.store import Key
from agent.scheduling.placing.outcome import Outcome

SCORED = 20
"""Scores are told of Placements with at most so many clusters: each is a series of its own."""

CLUSTERS = Gauge(
    "flotilla_placement_clusters",
    "Clusters that a Placement has decided.",
    ("namespace", "placement"),
    registry=REGISTRY,
)
SCORE = Gauge(
    "flotilla_placement_score",
    f"Score of a cluster that a Placement has decided, where these are at most {SCORED}.",
    ("namespace", "placement", "cluster"),
    registry=REGISTRY,
)


class Measured:
    """What has been told of each Placement."""

    def __init__(self) -> None:
        self._scored: dict[Key, frozenset[str]] = {}

    def note(self, key: Key, outcome: Outcome) -> None:
        """A Placement has been evaluated; of one that is misconfigured the last decisions stay."""
        if outcome.misconfigured:
            return
        decided = outcome.decided
        CLUSTERS.labels(*key).set(len(decided))
        scored = frozenset(decided) if len(decided) <= SCORED else frozenset()
        for cluster in self._scored.get(key, frozenset()) - scored:
            SCORE.remove(*key, cluster)
        for cluster in scored:
            SCORE.labels(*key, cluster).set(decided[cluster].score)
        self._scored[key] = scored

    def forget(self, key: Key) -> None:
        """A Placement is gone, or is none of ours any more."""
        for cluster in self._scored.pop(key, frozenset()):
            SCORE.remove(*key, cluster)
        CLUSTERS.remove(*key)
