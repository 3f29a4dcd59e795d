"""Fleets of many ManagedClusters, with sets, bindings and scores, and Placements over them, for measurements."""

from datetime import UTC, datetime, timedelta
from typing import Any

from agent.api.names.ocm import LABEL_CLUSTER_SET
from agent.scheduling.placing import read
from agent.scheduling.placing.inputs import Fleet

Raw = dict[str, Any]
NAMESPACE = "shop"
SCORE = "resource-usage-score"
_REGIONS = ("ap", "eu", "sa", "us")
_VALUES = ("cpuNodeAvailable", "memNodeAvailable", "cpuClusterAvailable", "memClusterAvailable")


def managed_clusters(count: int) -> list[Raw]:
    """Clusters of four regions and seven zones; some have a taint, half have the claim `gpu`."""
    return [_managed_cluster(n) for n in range(count)]


def scores(count: int, now: datetime) -> list[Raw]:
    """The AddOnPlacementScore of each, valid for 15 minutes."""
    until = (now + timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "metadata": {"name": SCORE, "namespace": f"c{n:04}"},
            "status": {
                "scores": [{"name": name, "value": (n * 37 + k) % 201 - 100} for k, name in enumerate(_VALUES)],
                "validUntil": until,
            },
        }
        for n in range(count)
    ]


def fleet(count: int, now: datetime | None = None) -> Fleet:
    """As many clusters with their scores, in the sets default and global, the first bound to the namespace."""
    chosen = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    sets: list[Raw] = [{"metadata": {"name": "default"}}, {"metadata": {"name": "global"}, "spec": chosen}]
    bindings = [{"metadata": {"name": "default", "namespace": NAMESPACE}}]
    return read.fleet(managed_clusters(count), sets, bindings, scores(count, now or datetime.now(UTC)))


def placement(name: str = "web", **spec: object) -> Raw:
    """A Placement that uses everything but CEL: predicates, a toleration, four prioritizers, groups of 100."""
    selector = {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu", "us", "ap"]}]}
    claim = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["true"]}]}
    addon = {"type": "AddOn", "addOn": {"resourceName": SCORE, "scoreName": _VALUES[0]}}
    cpu = {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}
    wanted = {
        "predicates": [
            {"requiredClusterSelector": {"labelSelector": selector}},
            {"requiredClusterSelector": {"claimSelector": claim}},
        ],
        "tolerations": [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 3600}],
        "prioritizerPolicy": {"configurations": [{"scoreCoordinate": each, "weight": 2} for each in (addon, cpu)]},
        "decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 100}},
        **spec,
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": wanted}


def _managed_cluster(n: int) -> Raw:
    labels = {LABEL_CLUSTER_SET: "default", "region": _REGIONS[n % 4], "zone": f"z{n % 7}", "cluster": f"c{n:04}"}
    taint = {"key": "maintenance", "effect": "NoSelect", "timeAdded": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    claims = [{"name": "id.k8s.io", "value": f"c{n:04}"}, {"name": "gpu", "value": "true" if n % 2 else "false"}]
    amounts = {"cpu": f"{16 + n % 48}", "memory": f"{64 + n % 64}Gi"}
    return {
        "metadata": {"name": f"c{n:04}", "labels": labels},
        "spec": {"hubAcceptsClient": True, "taints": [] if n % 10 else [taint]},
        "status": {"allocatable": amounts, "capacity": amounts, "clusterClaims": claims},
    }
