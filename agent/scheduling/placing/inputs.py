"""What a Placement is evaluated over: clusters, sets, bindings and scores at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class ClusterTaint:
    """A taint of a ManagedCluster."""

    key: str
    value: str
    effect: str
    added: datetime | None
    """`timeAdded`, from which tolerations count their seconds."""


@dataclass(frozen=True)
class ManagedCluster:
    """One ManagedCluster."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[ClusterTaint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """In 10^-9 units, as `Quantity.nano` has them."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    deleting: bool = False


@dataclass(frozen=True)
class ClusterSet:
    """One ManagedClusterSet: a label selector, or the clusters whose set label names it (selector None)."""

    name: str
    selector: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Score:
    """One value of an AddOnPlacementScore."""

    value: int
    until: datetime | None = None
    """When it expires; None: never."""


@dataclass(frozen=True)
class CelVerdicts:
    """What CEL expressions say of clusters, found out beforehand."""

    errors: Mapping[str, str] = field(default_factory=dict)
    """Expression to why it cannot be used."""
    matches: frozenset[tuple[str, str]] = frozenset()
    """Expression and name of each cluster that it is true of."""


@dataclass(frozen=True)
class Fleet:
    """All that can be decided about, by name."""

    clusters: Mapping[str, ManagedCluster]
    sets: Mapping[str, ClusterSet]
    bindings: Mapping[str, frozenset[str]]
    """Namespace to the names of the sets that are bound to it."""
    scores: Mapping[tuple[str, str], Mapping[str, Score]]
    """Cluster and name of an AddOnPlacementScore to its values by name."""
