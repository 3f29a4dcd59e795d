"""Feasible clusters of a Placement: set members that pass predicates, tolerations and hard spread constraints.

Placements with equal constraints share cached results while the fleet does not change.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from agent.ranking.placing import predicates, spread, taints
from agent.ranking.placing.inputs import CelVerdicts, ManagedCluster, PlacementInputs
from agent.ranking.placing.spec import PlacementSpec


class Feasible(NamedTuple):
    """Result of the filters."""

    clusters: Sequence[ManagedCluster]
    """Sorted by name."""
    avoided: Mapping[str, int]
    """Number of untolerated PreferNoSelect taints of each cluster."""
    refused: Mapping[str, str]
    """Why the other clusters are not feasible."""
    again: Sequence[datetime] = ()
    flaw: str = ""
    same: Hashable = None
    """Equal for Placements with the same clusters of one PlacementInputs; None if unknown."""


class _Matching(msgspec.Struct, frozen=True):
    """Results for labels, claims and constraints, which do not change with time."""

    clusters: Sequence[ManagedCluster]
    tainted: Sequence[ManagedCluster]
    """Clusters with taints that pass the predicates."""
    refused: Mapping[str, str]
    lacking: Mapping[str, str]
    """Clusters that pass the predicates but lack the key of a hard spread constraint, with the reason."""


def eligible(spec: PlacementSpec, fleet: PlacementInputs) -> frozenset[str]:
    """Return the sets that the Placement names, all by default, among those bound to its namespace."""
    bound = fleet.bindings.get(spec.namespace, frozenset()).intersection(fleet.sets)
    return bound.intersection(spec.sets) if spec.sets else bound


def members(spec: PlacementSpec, fleet: PlacementInputs) -> Sequence[ManagedCluster]:
    """Return the clusters of those sets, sorted by name."""
    sets = eligible(spec, fleet)
    return fleet.once(("members", sets), lambda: _members(sets, fleet)) if sets else ()


def outside(spec: PlacementSpec, fleet: PlacementInputs) -> dict[str, str]:
    """Return the clusters that are no members, with the reason."""
    inside = frozenset(cluster.name for cluster in members(spec, fleet))
    where = f"in no set{' of clusterSets' if spec.sets else ''} that is bound to namespace {spec.namespace}"
    return {
        name: "it is being deleted"
        if cluster.deleting
        else f"{where} (sets: {', '.join(sorted(fleet.sets_of[name])) or 'none'})"
        for name, cluster in fleet.clusters.items()
        if name not in inside
    }


def feasible(
    spec: PlacementSpec, fleet: PlacementInputs, decided: Collection[str], cel: CelVerdicts, now: datetime
) -> Feasible:
    """Return the feasible clusters; as in the reference implementation, a part of the spec is checked only if
    clusters remain.
    """
    clusters = members(spec, fleet)
    flaw = (spec.flaws.get("predicates") or _cel_flaw(spec, cel)) if clusters else ""
    if flaw:
        return Feasible((), {}, {}, flaw=flaw)
    same: Hashable = None
    if any(predicate.cel for predicate in spec.predicates):
        matching = _match(spec, clusters, cel)
    else:
        same = (eligible(spec, fleet), spec.predicates, tuple(each for each in spec.policy.spread if each.hard))
        matching = fleet.once(("matching", same), lambda: _match(spec, clusters, cel))
    if (matching.clusters or matching.lacking) and "tolerations" in spec.flaws:
        return Feasible((), {}, matching.refused, flaw=spec.flaws["tolerations"])
    refused: dict[str, str] = {}
    avoided: dict[str, int] = {}
    again: list[datetime] = []
    for cluster in matching.tainted:
        verdict = taints.judge(cluster, spec.tolerations, cluster.name in decided, now)
        if verdict.until is not taints.FOREVER:
            again.append(verdict.until)
        if verdict.refusal:
            refused[cluster.name] = verdict.refusal
        elif verdict.avoided and cluster.name not in matching.lacking:
            avoided[cluster.name] = verdict.avoided
    found = matching.clusters
    if refused:
        found = [cluster for cluster in found if cluster.name not in refused]
        same = (same, tuple(refused)) if same is not None else None
    return Feasible(found, avoided, {**matching.refused, **matching.lacking, **refused}, again, same=same)


def _members(sets: frozenset[str], fleet: PlacementInputs) -> Sequence[ManagedCluster]:
    names = sorted(name for name, found in fleet.sets_of.items() if not sets.isdisjoint(found))
    return tuple(cluster for name in names if not (cluster := fleet.clusters[name]).deleting)


def _match(spec: PlacementSpec, clusters: Sequence[ManagedCluster], cel: CelVerdicts) -> _Matching:
    refused, lacking, tainted, found = {}, {}, [], []
    hard = [each for each in spec.policy.spread if each.hard]
    for cluster in clusters:
        why = predicates.refusal(spec.predicates, cluster, cel) if spec.predicates else ""
        if why:
            refused[cluster.name] = why
            continue
        if cluster.taints:
            tainted.append(cluster)
        why = spread.refusal(hard, cluster) if hard else ""
        if why:
            lacking[cluster.name] = why
        else:
            found.append(cluster)
    return _Matching(found, tainted, refused, lacking)


def _cel_flaw(spec: PlacementSpec, cel: CelVerdicts) -> str:
    for predicate in spec.predicates:
        for expression in predicate.cel:
            if expression in cel.errors:
                return f"Predicate:{cel.errors[expression]}"
    return ""
