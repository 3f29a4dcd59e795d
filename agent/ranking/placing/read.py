"""Readers that convert Open Cluster Management's objects into input for the evaluation of Placements.

Invalid objects raise nothing: unreadable parts count as missing.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from agent.model.quantity import InvalidQuantity, Quantity
from agent.ranking.placing import fields
from agent.ranking.placing.fields import mapping_if_any
from agent.ranking.placing.inputs import ClusterSet, ClusterTaint, ManagedCluster, PlacementInputs, Score
from agent.ranking.pod_terms import NOTHING, Selector

Raw = Mapping[str, Any]


def fleet(
    clusters: Iterable[Raw], sets: Iterable[Raw], bindings: Iterable[Raw], scored: Iterable[Raw]
) -> PlacementInputs:
    """Convert all objects of these kinds."""
    return PlacementInputs(
        clusters={found.name: found for found in map(managed_cluster, clusters)},
        sets={found.name: found for found in map(cluster_set, sets)},
        bindings=bound_sets(map(key, bindings)),
        scores={key(each): scores(each) for each in scored},
    )


def bound_sets(bindings: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Return the sets bound to each namespace, from the keys of ManagedClusterSetBindings."""
    found: dict[str, set[str]] = {}
    for namespace, name in bindings:
        found.setdefault(namespace, set()).add(name)
    return {namespace: frozenset(names) for namespace, names in found.items()}


def key(raw: Raw) -> tuple[str, str]:
    """Return namespace and name. For a ManagedClusterSetBinding these are the bound namespace and the set; for an
    AddOnPlacementScore the cluster and the score.
    """
    metadata = mapping_if_any(raw, "metadata")
    return _text(metadata, "namespace"), _text(metadata, "name")


def managed_cluster(raw: Raw) -> ManagedCluster:
    """Convert a ManagedCluster."""
    metadata, status = mapping_if_any(raw, "metadata"), mapping_if_any(raw, "status")
    capacity = _amounts(status, "capacity")
    return ManagedCluster(
        name=sys.intern(_text(metadata, "name")),
        labels=_pairs(mapping_if_any(metadata, "labels")),
        claims={_text(each, "name"): _text(each, "value") for each in _items(status, "clusterClaims")},
        taints=tuple(_taint(each) for each in _items(mapping_if_any(raw, "spec"), "taints")),
        allocatable={
            resource: _float(nano) for resource, nano in _amounts(status, "allocatable").items() if resource in capacity
        },
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def cluster_set(raw: Raw) -> ClusterSet:
    """Convert a ManagedClusterSet; an invalid selector selects nothing."""
    chosen = mapping_if_any(mapping_if_any(raw, "spec"), "clusterSelector")
    name = _text(mapping_if_any(raw, "metadata"), "name")
    match _text(chosen, "selectorType"):
        case "" | "ExclusiveClusterSetLabel":
            return ClusterSet(name)
        case "LabelSelector" if isinstance(chosen.get("labelSelector"), Mapping):
            return ClusterSet(name, _selector(chosen["labelSelector"]))
        case _:
            return ClusterSet(name, NOTHING)


def scores(raw: Raw) -> dict[str, Score]:
    """Return the values of an AddOnPlacementScore, by name."""
    status = mapping_if_any(raw, "status")
    until = _moment(status.get("validUntil"))
    return {
        _text(each, "name"): Score(each["value"], until)
        for each in _items(status, "scores")
        if isinstance(each.get("value"), int)
    }


def decided(raw: Raw) -> tuple[str, ...]:
    """Return the clusters in a PlacementDecision, interned because many decisions name the same ones."""
    found = (_text(each, "clusterName") for each in _items(mapping_if_any(raw, "status"), "decisions"))
    return tuple(sys.intern(name) for name in found if name)


def _taint(raw: Raw) -> ClusterTaint:
    return ClusterTaint(_text(raw, "key"), _text(raw, "value"), _text(raw, "effect"), _moment(raw.get("timeAdded")))


def _selector(raw: Raw) -> Selector:
    try:
        return fields.selector(raw, "labelSelector")
    except fields.Misconfigured:
        return NOTHING


def _amounts(raw: Raw, name: str) -> dict[str, int]:
    found = {}
    for resource, amount in mapping_if_any(raw, name).items():
        try:
            found[resource] = Quantity.of(amount).nano
        except InvalidQuantity:
            continue
    return found


def _float(nano: int) -> float:
    """Return the float that Go computes for a quantity: its digits times a power of ten."""
    for digits in (0, -3, -6):
        whole, rest = divmod(nano, 10 ** (9 + digits))
        if not rest:
            return float(whole) * float(f"1e{digits}") if digits else float(whole)
    return float(nano) * 1e-9


def _moment(raw: object) -> datetime | None:
    if not isinstance(raw, str):
        return None
    try:
        moment = datetime.fromisoformat(raw)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _pairs(raw: Raw) -> dict[str, str]:
    return {name: value for name, value in raw.items() if isinstance(value, str)}


def _items(raw: Raw, name: str) -> Sequence[Raw]:
    found = raw.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else ()


def _text(raw: Raw, name: str) -> str:
    found = raw.get(name)
    return found if isinstance(found, str) else ""
