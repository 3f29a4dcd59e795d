"""Group scheduling.p2code.eu, as structural schemas: exactly the fields of P2CODE's own scheduler."""

from typing import Any

from agent.api.crds.definition import crd
from agent.api.crds.schema import CONDITION, Schema, fields, items, resource, text
from agent.api.kinds import SCHEDULING_MANIFESTS


def crds() -> list[dict[str, Any]]:
    """Return the CRD of P2CodeSchedulingManifests."""
    column = {"name": "State", "type": "string", "jsonPath": ".status.state"}
    return [crd(SCHEDULING_MANIFESTS, [], _scheduling_manifest(), [column])]


def _scheduling_manifest() -> Schema:
    annotation = text("KEY=VALUE, as p2code.filter.FEATURE=VALUE.")
    workload = fields(
        "What one workload asks of its cluster.",
        {
            "name": text("Name of the workload in manifests."),
            "annotations": items("Filters of its pods.", annotation),
        },
    )
    manifest = {
        "type": "object",
        "description": "An object of Kubernetes, whole.",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    spec = fields(
        "An application, and where it may run.",
        {
            "globalAnnotations": items("The cluster set, and filters of all workloads.", annotation),
            "workloadAnnotations": items("Filters of single workloads.", workload),
            "manifests": items("Everything that the application consists of.", manifest),
        },
        required=["manifests"],
    )
    return resource("An application of many manifests, placed as a whole.", {"spec": spec, "status": _status()})


def _status() -> Schema:
    decision = fields(
        "Where a workload runs.",
        {
            "workloadName": text("The workload."),
            "clusterSelected": text("Name of its ManagedCluster."),
        },
        required=["workloadName", "clusterSelected"],
    )
    return fields(
        "What the scheduler sees.",
        {
            "conditions": items("State of the object, one aspect each.", CONDITION),
            "decisions": items("Where workloads run.", decision),
            "state": text("Type of the condition that is true now."),
        },
        required=["conditions", "decisions", "state"],
    )
