"""Scores that others give targets: any object with `status.scores` and `status.validUntil`, the shape of Open Cluster
Management's AddOnPlacementScore, in the namespace of the target's ManagedCluster, else the one named like the target.
"""

from typing import Self

import msgspec

FORM = "WEIGHT:RESOURCE.VERSION.GROUP:OBJECT:SCORE"


class InvalidExtraScore(ValueError):
    """Text that names no score; the message says what it should look like."""


class ExtraScore(msgspec.Struct, frozen=True):
    """One score and how much it counts."""

    weight: float
    """Negative to prefer low scores."""
    resource: str
    """Plural, as `kubectl api-resources` shows it."""
    version: str
    group: str
    object: str
    score: str

    @property
    def name(self) -> str:
        """What it is called among a target's scores."""
        return f"{self.object}:{self.score}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `WEIGHT:RESOURCE.VERSION.GROUP:OBJECT:SCORE`.

        :raises InvalidExtraScore: if it is not that
        """
        weight, _, rest = text.partition(":")
        kind, _, rest = rest.partition(":")
        name, _, score = rest.partition(":")
        resource, _, served = kind.partition(".")
        version, _, group = served.partition(".")
        try:
            number = float(weight)
        except ValueError:
            number = 0.0
        if not all((resource, version, group, name, score)) or not 0 < abs(number) < float("inf"):
            raise InvalidExtraScore(
                f"{text!r} is not {FORM} with a weight other than 0, such as "
                "5:addonplacementscores.v1alpha1.cluster.open-cluster-management.io:resource-usage-score:cpuNodeAvailable"
            )
        return cls(number, resource, version, group, name, score)
