"""What a Placement is evaluated over: clusters, sets, bindings and scores at one moment."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from agent.api.names.ocm import LABEL_CLUSTER_SET
from agent.scheduling.pod_terms import Selector

T = TypeVar("T")

_REMEMBERED = 64
"""How much is remembered of one fleet: Placements that share nothing would keep a list of clusters each."""


class ClusterTaint(msgspec.Struct, frozen=True):
    """A taint of a ManagedCluster."""

    key: str
    value: str
    effect: str
    added: datetime | None
    """`timeAdded`, from which tolerations count their seconds."""

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
    """Of resources that it tells the capacity of, too."""
    deleting: bool = False


class ClusterSet(msgspec.Struct, frozen=True):
    """One ManagedClusterSet: a label selector, or the clusters whose set label names it (selector None)."""

    name: str
    selector: Selector | None = None

    def has(self, cluster: ManagedCluster) -> bool:
        """Whether a cluster is in it."""
        if self.selector is None:
            return cluster.labels.get(LABEL_CLUSTER_SET) == self.name
        return self.selector.matches(cluster.labels)


class Score(msgspec.Struct, frozen=True):
    """One value of an AddOnPlacementScore."""

    value: int
    until: datetime | None = None
    """When it expires; None: never."""

    def expired(self, now: datetime) -> bool:
        """Whether it no longer counts."""
        return self.until is not None and self.until <= now


@dataclass(frozen=True)
class CelVerdicts:
    """What CEL expressions say of clusters, found out beforehand."""

    errors: Mapping[str, str] = field(default_factory=dict)
    """Expression to why it cannot be used."""
    matches: frozenset[tuple[str, str]] = frozenset()
    """Expression and name of each cluster that it is true of."""
    again: datetime | None = None
    """When to ask again though nothing changes: an expression was too much for its evaluation."""


@dataclass(frozen=True)
class PlacementInputs:
    """All that Placements are evaluated over, by name, and a cache of what follows from it.

    It does not change: where one of these mappings would, there is a new PlacementInputs.
    """

    clusters: Mapping[str, ManagedCluster]
    sets: Mapping[str, ClusterSet]
    bindings: Mapping[str, frozenset[str]]
    """Namespace to the names of the sets that are bound to it."""
    scores: Mapping[tuple[str, str], Mapping[str, Score]]
    """Cluster and name of an AddOnPlacementScore to its values by name."""
    _found_out: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: Hashable, find: Callable[[], T], holds: Callable[[T], bool] = lambda found: True) -> T:
        """Cache the result of `find` for all Placements that are evaluated over this fleet, as long as `holds` says so.

        The key has in it all that `find` looks at beside the fleet.
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
        """Cluster to the sets that it is in."""
        selecting = [each for each in self.sets.values() if each.selector is not None]
        labelled = {each.name: frozenset((each.name,)) for each in self.sets.values() if each.selector is None}
        found, known = {}, dict[frozenset[str], frozenset[str]]()
        for name, cluster in self.clusters.items():
            own = labelled.get(cluster.labels.get(LABEL_CLUSTER_SET, ""), frozenset())
            sets = own.union(each.name for each in selecting if each.has(cluster))
            found[name] = known.setdefault(sets, sets)
        return found
