"""ManagedClusters and ManagedClusterSets as lines of a table. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agent.api.conditions import find_condition
from agent.api.names import ocm
from agent.cli.fleet.units import NOTHING, cores, size
from agent.cli.output import Table
from agent.ranking.placing import read as reading
from agent.ranking.placing.inputs import PlacementInputs

Raw = Mapping[str, Any]

SHOWN = 4
"""Number of names that fit into a cell."""
_TOLD_APART = (ocm.CLAIM_ID, ocm.CLAIM_KUBE_VERSION)
"""Claims without information for users, or that another column shows."""


class ClusterLine(msgspec.Struct, frozen=True):
    """A ManagedCluster."""

    name: str
    sets: Sequence[str]
    available: str
    reason: str
    message: str
    taints: Sequence[str]
    """Taints as `KEY=VALUE:EFFECT`, like in kubectl."""
    claims: Mapping[str, str]
    labels: Mapping[str, str]
    targets: Sequence[str]
    """Targets that represent the cluster, as NAMESPACE/NAME; a ClusterTarget by its name."""
    kubernetes: str
    cpu: str
    """Allocatable CPU."""
    memory: str


class SetLine(msgspec.Struct, frozen=True):
    """A ManagedClusterSet."""

    name: str
    chooses: str
    """Label or selector that makes a cluster a member."""
    clusters: Sequence[str]
    namespaces: Sequence[str]
    """Namespaces that the set is bound to."""


def cluster_lines(clusters: Sequence[Raw], sets: Sequence[Raw], targets: Iterable[Raw]) -> list[ClusterLine]:
    """Return a line for every ManagedCluster, by name."""
    leading: dict[str, list[str]] = {}
    for target in targets:
        if found := (target.get("status") or {}).get("managedCluster"):
            metadata = target["metadata"]
            parts = (metadata.get("namespace", ""), metadata["name"])
            leading.setdefault(found, []).append("/".join(part for part in parts if part))
    fleet = reading.fleet(clusters, sets, (), ())
    return [_cluster_line(each, fleet, sorted(leading.get(_name(each), ()))) for each in sorted(clusters, key=_name)]


def _cluster_line(cluster: Raw, fleet: PlacementInputs, targets: Sequence[str]) -> ClusterLine:
    status = cluster.get("status") or {}
    available = find_condition(status.get("conditions"), ocm.CONDITION_AVAILABLE) or {}
    known = fleet.clusters[_name(cluster)]
    # A user without the right to list the sets still sees the label.
    of_label = {known.labels[ocm.LABEL_CLUSTER_SET]} if not fleet.sets and ocm.LABEL_CLUSTER_SET in known.labels else ()
    allocatable = status.get("allocatable") or {}
    return ClusterLine(
        name=known.name,
        sets=sorted(fleet.sets_of[known.name].union(of_label)),
        available=available.get("status") or "Unknown",
        reason=available.get("reason") or "NothingSaid",
        message=available.get("message") or "nobody has said yet whether this cluster is available",
        taints=[str(taint) for taint in known.taints],
        claims=known.claims,
        labels=known.labels,
        targets=targets,
        kubernetes=(status.get("version") or {}).get("kubernetes", ""),
        cpu=str(allocatable.get("cpu", "")),
        memory=str(allocatable.get("memory", "")),
    )


def set_lines(sets: Sequence[Raw], clusters: Sequence[Raw], bindings: Iterable[Raw]) -> list[SetLine]:
    """Return a line for every ManagedClusterSet, by name."""
    bound: dict[str, list[str]] = {}
    for binding in bindings:
        metadata = binding["metadata"]
        bound.setdefault(metadata["name"], []).append(metadata["namespace"])
    members = reading.fleet(clusters, sets, (), ()).sets_of
    named = {_name(each): each for each in sets}
    return [
        SetLine(
            name=name,
            chooses=_chooses(each),
            clusters=sorted(cluster for cluster, its in members.items() if name in its),
            namespaces=sorted(bound.get(name, ())),
        )
        for name, each in sorted(named.items())
    ]


def _chooses(cluster_set: Raw) -> str:
    chosen = (cluster_set.get("spec") or {}).get("clusterSelector") or {}
    if chosen.get("selectorType") != "LabelSelector":
        return f"{ocm.LABEL_CLUSTER_SET}={_name(cluster_set)}"
    wanted = chosen.get("labelSelector")
    if wanted is None:
        return "no cluster"
    words = [f"{key}={value}" for key, value in sorted((wanted.get("matchLabels") or {}).items())]
    words += [
        " ".join([each["key"], each["operator"], *([f"[{','.join(each['values'])}]"] if each.get("values") else [])])
        for each in wanted.get("matchExpressions") or ()
    ]
    return ", ".join(words) or "every cluster"


def clusters_table(lines: Sequence[ClusterLine], *, wide: bool) -> Table:
    """Return the table of clusters, with claim names up to their first dot; omits id and Kubernetes version."""
    heads = ["NAME", "SETS", "AVAILABLE", "TAINTS", "CLAIMS", "TARGETS"]
    rows = [
        [
            line.name,
            _cell(line.sets),
            line.available,
            ",".join(line.taints) or NOTHING,
            _claims(line.claims, wide=wide),
            _cell(line.targets),
        ]
        for line in lines
    ]
    if wide:
        heads += ["KUBERNETES", "CPU", "MEMORY", "REASON", "MESSAGE"]
        for row, line in zip(rows, lines, strict=True):
            row += [line.kubernetes or NOTHING, cores(line.cpu), size(line.memory), line.reason, line.message]
    return heads, rows


def sets_table(lines: Sequence[SetLine], *, wide: bool) -> Table:
    """Return a table with a few of the clusters and namespaces, with all if `wide`."""
    heads = ["NAME", "CHOOSES", "COUNT", "CLUSTERS", "BOUND TO NAMESPACES"]
    most = None if wide else SHOWN
    return heads, [
        [line.name, line.chooses, str(len(line.clusters)), _cell(line.clusters, most), _cell(line.namespaces, most)]
        for line in lines
    ]


def _cell(names: Sequence[str], most: int | None = SHOWN) -> str:
    shown = list(names[:most])
    more = len(names) - len(shown)
    return ",".join([*shown, *([f"+{more}"] if more else [])]) or NOTHING


def _claims(claims: Mapping[str, str], *, wide: bool) -> str:
    if wide:
        return ",".join(f"{name}={value}" for name, value in claims.items()) or NOTHING
    found = [f"{name.partition('.')[0]}={value}" for name, value in claims.items() if name not in _TOLD_APART]
    return _cell(found)


def _name(obj: Raw) -> str:
    return str(obj["metadata"]["name"])
