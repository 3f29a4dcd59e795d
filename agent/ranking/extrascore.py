"""Extra scores: objects with `status.scores` and `status.validUntil`, as Open Cluster Management's AddOnPlacementScore.

They are in the namespace of the target's ManagedCluster, or without one in a namespace named like the target.
"""

from typing import Self

import msgspec

FORM = "WEIGHT:RESOURCE.VERSION.GROUP:OBJECT:SCORE"


class InvalidExtraScore(ValueError):
    """Text that is no valid score setting; the message shows the expected form."""


class ExtraScore(msgspec.Struct, frozen=True):
    """One score and its weight."""

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
        """Its name among a target's scores."""
        return f"{self.object}:{self.score}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `WEIGHT:RESOURCE.VERSION.GROUP:OBJECT:SCORE`.

        :raises InvalidExtraScore: if the text has another form
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
