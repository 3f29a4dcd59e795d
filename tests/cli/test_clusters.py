"""ManagedClusters and their sets as table rows, without clusters; the verbs, on a cluster with their CRDs."""

from typing import Any

from agent.api.names import ocm
from agent.cli.placements.lines import cluster_lines, clusters_table, set_lines, sets_table

Raw = dict[str, Any]


def cluster(name: str, available: str = "", taints: list[Raw] | None = None, **labels: str) -> Raw:
    """Return a ManagedCluster. An underscore in a label's key stands for a dash."""
    conditions = [{"type": ocm.CONDITION_AVAILABLE, "status": available, "reason": "R", "message": "m"}]
    found = {key.replace("_", "-"): value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "labels": found},
        "spec": {"taints": taints or []},
        "status": {"conditions": conditions if available else []},
    }


def cluster_set(name: str, selector: Raw | None = None) -> Raw:
    chosen = {"selectorType": "LabelSelector", "labelSelector": selector} if selector is not None else {}
    return {"metadata": {"name": name}, "spec": {"clusterSelector": chosen} if chosen else {}}


def of_set(name: str, cluster_set: str) -> Raw:
    found = cluster(name)
    found["metadata"]["labels"] = {ocm.LABEL_CLUSTER_SET: cluster_set}
    return found


def test_a_cluster_is_told_with_sets_taints_claims_and_targets() -> None:
    eu = cluster(
        "eu", "True", [{"key": "maintenance", "effect": "NoSelect"}, {"key": "a", "value": "b", "effect": "NoSelect"}]
    )
    eu["metadata"]["labels"][ocm.LABEL_CLUSTER_SET] = "default"
    claims = {ocm.CLAIM_ID: "u", ocm.CLAIM_KUBE_VERSION: "v1.36.0", ocm.CLAIM_PLATFORM: "AWS", "gpu": "true"}
    eu["status"] |= {
        "clusterClaims": [{"name": name, "value": value} for name, value in claims.items()],
        "version": {"kubernetes": "v1.36.0"},
        "allocatable": {"cpu": "32", "memory": "64Gi"},
    }
    targets = [
        {"metadata": {"name": "eu", "namespace": "shop"}, "status": {"managedCluster": "eu"}},
        {"metadata": {"name": "eu"}, "status": {"managedCluster": "eu"}},
        {"metadata": {"name": "new", "namespace": "shop"}},
    ]
    sets = [cluster_set("default"), cluster_set("global", {}), cluster_set("other")]
    dev, found = cluster_lines([eu, cluster("dev")], sets, targets)
    heads, (_, row) = clusters_table([dev, found], wide=True)
    assert dict(zip(heads, row, strict=True)) == {
        "NAME": "eu",
        "SETS": "default,global",
        "AVAILABLE": "True",
        "TAINTS": "maintenance:NoSelect,a=b:NoSelect",
        "CLAIMS": ",".join(f"{name}={value}" for name, value in claims.items()),
        "TARGETS": "eu,shop/eu",
        "KUBERNETES": "v1.36.0",
        "CPU": "32",
        "MEMORY": "64Gi",
        "REASON": "R",
        "MESSAGE": "m",
    }
    heads, (first, second) = clusters_table([dev, found], wide=False)
    assert dict(zip(heads, second, strict=True))["CLAIMS"] == "platform=AWS,gpu=true"
    assert first == ["dev", "global", "Unknown", "-", "-", "-"]


def test_who_may_not_list_sets_sees_the_one_of_the_label() -> None:
    (line,) = cluster_lines([of_set("eu", "prod")], [], [])
    assert line.sets == ["prod"]


def test_a_set_is_told_with_its_clusters_and_namespaces() -> None:
    members = [of_set(f"c{number}", "prod") for number in range(6)]
    wanted = {
        "matchLabels": {"zone": "eu"},
        "matchExpressions": [
            {"key": "gpu", "operator": "In", "values": ["a", "b"]},
            {"key": "x", "operator": "Exists"},
        ],
    }
    sets = [cluster_set("prod"), cluster_set("gpu", wanted), cluster_set("global", {})]
    bindings = [
        {"metadata": {"name": "prod", "namespace": namespace}, "spec": {"clusterSet": "prod"}} for namespace in "ba"
    ]
    lines = set_lines(sets, members, bindings)
    heads, rows = sets_table(lines, wide=False)
    assert heads == ["NAME", "CHOOSES", "COUNT", "CLUSTERS", "BOUND TO NAMESPACES"]
    assert rows == [
        ["global", "every cluster", "6", "c0,c1,c2,c3,+2", "-"],
        ["gpu", "zone=eu, gpu In [a,b], x Exists", "0", "-", "-"],
        ["prod", f"{ocm.LABEL_CLUSTER_SET}=prod", "6", "c0,c1,c2,c3,+2", "a,b"],
    ]
    assert sets_table(lines, wide=True)[1][0][3] == "c0,c1,c2,c3,c4,c5"
