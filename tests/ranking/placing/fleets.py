"""Clusters, Placements and scores as API servers return them, and their evaluation."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.api.names.ocm import LABEL_CLUSTER_SET
from agent.ranking.placing import read
from agent.ranking.placing.evaluate import evaluate
from agent.ranking.placing.inputs import CelVerdicts
from agent.ranking.placing.outcome import Outcome

Raw = dict[str, Any]
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SHOP = "shop"


def stamp(seconds: float) -> str:
    """Return the timestamp this many seconds from now."""
    return (NOW + timedelta(seconds=seconds)).isoformat()


def cluster(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
    taints: Iterable[Raw] = (),
    cpu: str = "",
    member: str = "default",
    deleting: bool = False,
) -> Raw:
    """Return a ManagedCluster in the set of this name."""
    own = {LABEL_CLUSTER_SET: member} if member else {}
    amounts = {"cpu": cpu} if cpu else {}
    metadata: Raw = {"name": name, "labels": {**own, **(labels or {})}}
    if deleting:
        metadata["deletionTimestamp"] = stamp(-1)
    listed = [{"name": key, "value": value} for key, value in (claims or {}).items()]
    status = {"clusterClaims": listed, "allocatable": amounts, "capacity": amounts}
    return {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status}


def taint(key: str, effect: str = "NoSelect", value: str = "", age: float = 0) -> Raw:
    """Return a taint that was added this many seconds ago."""
    return {"key": key, "effect": effect, "value": value, "timeAdded": stamp(-age)}


def cluster_set(name: str, selector: Raw | None = None) -> Raw:
    """Return a ManagedClusterSet by label, or with a selector."""
    if selector is None:
        return {"metadata": {"name": name}, "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}}
    chosen = {"selectorType": "LabelSelector", "labelSelector": selector}
    return {"metadata": {"name": name}, "spec": {"clusterSelector": chosen}}


def score(name: str, of: str, values: Mapping[str, int], valid: float | None = None) -> Raw:
    """Return an AddOnPlacementScore of a cluster, valid for this many seconds."""
    status: Raw = {"scores": [{"name": key, "value": value} for key, value in values.items()]}
    if valid is not None:
        status["validUntil"] = stamp(valid)
    return {"metadata": {"namespace": of, "name": name}, "status": status}


def placement(annotations: Mapping[str, str] | None = None, **spec: object) -> Raw:
    """Return the Placement `shop/web`."""
    return {"metadata": {"namespace": SHOP, "name": "web", "annotations": dict(annotations or {})}, "spec": spec}


def requires(**selector: Raw) -> Raw:
    """Return a predicate."""
    return {"requiredClusterSelector": selector}


def expression(key: str, operator: str, *values: str) -> Raw:
    """Return a selector of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def built_in(name: str, weight: int = 1) -> Raw:
    """Return the configuration of a built-in prioritizer."""
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def addon(resource: str, name: str, weight: int = 1) -> Raw:
    """Return the configuration of an AddOnPlacementScore."""
    coordinate = {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": name}}
    return {"scoreCoordinate": coordinate, "weight": weight}


def exact(*configurations: Raw) -> Raw:
    """Return a prioritizerPolicy with only these prioritizers."""
    return {"mode": "Exact", "configurations": list(configurations)}


def evaluated(
    wanted: Raw,
    clusters: Iterable[Raw],
    *,
    decided: Collection[str] = (),
    elsewhere: Mapping[str, int] | None = None,
    sets: Iterable[Raw] = (cluster_set("default"), cluster_set("global", {})),
    bound: Iterable[str] = ("default",),
    scores: Iterable[Raw] = (),
    cel: CelVerdicts | None = None,
    now: datetime = NOW,
) -> Outcome:
    """Evaluate a Placement in the namespace shop."""
    bindings = [{"metadata": {"namespace": SHOP, "name": name}} for name in bound]
    fleet = read.fleet(clusters, sets, bindings, scores)
    return evaluate(wanted, fleet, decided=decided, elsewhere=elsewhere or {}, cel=cel or CelVerdicts(), now=now)


def names(outcome: Outcome) -> list[str]:
    """Return the decided clusters in the order in which they are listed."""
    return [each.cluster for group in outcome.groups for each in group.decisions]
