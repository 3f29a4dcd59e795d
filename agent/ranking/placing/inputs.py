"""Input of the evaluation of Placements: clusters, sets, bindings and scores at one moment."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from agent.api.names.ocm import LABEL_CLUSTER_SET
from agent.ranking.pod_terms import Selector

T = TypeVar("T")

_REMEMBERED = 64
"""Maximum number of cached results per fleet: each may be a list of all clusters."""


class ClusterTaint(msgspec.Struct, frozen=True):
    """A taint of a ManagedCluster."""

    key: str
    value: str
    effect: str
    added: datetime | None
    """`timeAdded`, the start of `tolerationSeconds`; None if absent."""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class ManagedCluster:
    """One ManagedCluster."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[ClusterTaint, ...] = ()
    allocatable: Mapping[str, float] = field(default_factory=dict)
    """Allocatable resources that also report a capacity."""
    deleting: bool = False


class ClusterSet(msgspec.Struct, frozen=True):
    """One ManagedClusterSet: a label selector, or the clusters whose set label names it (selector None)."""

    name: str
    selector: Selector | None = None

    def has(self, cluster: ManagedCluster) -> bool:
        """Return True if the set contains the cluster."""
        if self.selector is None:
            return cluster.labels.get(LABEL_CLUSTER_SET) == self.name
        return self.selector.matches(cluster.labels)


class Score(msgspec.Struct, frozen=True):
    """One value of an AddOnPlacementScore."""

    value: int
    until: datetime | None = None
    """When it expires; None if never."""

    def expired(self, now: datetime) -> bool:
        """Return True if the score no longer counts."""
        return self.until is not None and self.until <= now


@dataclass(frozen=True)
class CelVerdicts:
    """Results of CEL expressions, computed beforehand."""

    errors: Mapping[str, str] = field(default_factory=dict)
    """Error by expression."""
    matches: frozenset[tuple[str, str]] = frozenset()
    """Pairs of an expression and the name of a cluster for which it is true."""
    again: datetime | None = None
    """When to retry expressions whose evaluation was aborted; None if there are none."""


@dataclass(frozen=True)
class PlacementInputs:
    """All input of the evaluation of Placements, by name, and a cache of derived results.

    Immutable: a change of any of these mappings creates a new PlacementInputs.
    """

    clusters: Mapping[str, ManagedCluster]
    sets: Mapping[str, ClusterSet]
    bindings: Mapping[str, frozenset[str]]
    """Names of the sets bound to each namespace."""
    scores: Mapping[tuple[str, str], Mapping[str, Score]]
    """Values of AddOnPlacementScores by name, by cluster and name of the object."""
    _found_out: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: Hashable, find: Callable[[], T], holds: Callable[[T], bool] = lambda found: True) -> T:
        """Cache the result of `find` for all Placements of this fleet, as long as `holds` returns True.

        The key contains all input of `find` other than the fleet.
        """
        known: T | None = self._found_out.get(key)
        if known is not None and holds(known):
            return known
        if len(self._found_out) >= _REMEMBERED:
            self._found_out.clear()
        found = self._found_out[key] = find()
        return found

    @cached_property
    def sets_of(self) -> Mapping[str, frozenset[str]]:
        """Sets that contain each cluster."""
        selecting = [each for each in self.sets.values() if each.selector is not None]
        labelled = {each.name: frozenset((each.name,)) for each in self.sets.values() if each.selector is None}
        found, known = {}, dict[frozenset[str], frozenset[str]]()
        for name, cluster in self.clusters.items():
            own = labelled.get(cluster.labels.get(LABEL_CLUSTER_SET, ""), frozenset())
            sets = own.union(each.name for each in selecting if each.has(cluster))
            found[name] = known.setdefault(sets, sets)
        return found
