"""Readings of healthy clusters, for tests to modify."""

from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS
from hack.lab.demo.fleet import Readings
from hack.lab.demo.manifests import DEPLOYMENT, DEPLOYMENTS, JOB, JOBS, REGION, deployment, job

Raw = dict[str, Any]
TARGETS = ("us", "eu")


def ready(value: bool = True) -> Raw:
    return {"conditions": [{"type": "Ready", "status": str(value), "reason": "Test", "message": ""}]}


def proxy(app: str, number: int, cluster: str, phase: str) -> Raw:
    return {
        "metadata": {
            "name": f"{app}-{number}",
            "namespace": "default",
            "uid": f"{app}-{number}",
            "labels": {"app": app},
        },
        "spec": {
            "schedulerName": names.SCHEDULER_PROXY,
            "nodeName": names.virtual_node("default", cluster),
        },
        "status": {"phase": phase, **ready(phase == "Running")},
    }


def delegate(app: str, number: int, cluster: str, phase: str) -> Raw:
    owner = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "name": f"{app}-{number}-x",
        "uid": f"chaperon-{number}",
        "controller": True,
    }
    return {
        "metadata": {
            "name": f"{app}-{number}-x",
            "namespace": "default",
            "uid": f"delegate-{app}-{number}",
            "labels": {names.LABEL_PARENT_UID: f"{app}-{number}"},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": f"{cluster}-node-0"},
        "status": {"phase": phase, **ready(phase == "Running")},
    }


def fresh() -> Readings:
    """Return joined clusters without workloads."""
    nodes = {
        cluster: [{"metadata": {"name": f"{cluster}-node-0", "labels": {REGION: cluster}}, "status": ready()}]
        for cluster in ("cd", *TARGETS)
    }
    for cluster in TARGETS:
        labels = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
        name = names.virtual_node("default", cluster)
        nodes["cd"].append({"metadata": {"name": name, "labels": labels}, "status": ready()})
    return Readings(
        source="cd",
        pods={cluster: [] for cluster in ("cd", *TARGETS)},
        chaperons={cluster: [] for cluster in ("cd", *TARGETS)},
        nodes=nodes,
        targets=[{"metadata": {"name": name}, "status": ready()} for name in TARGETS],
        workloads=[],
    )


def add(readings: Readings, app: str, clusters: tuple[str, ...], phase: str) -> None:
    """Add a proxy pod with chaperon and delegate per entry of `clusters`."""
    for number, cluster in enumerate(clusters):
        readings.pods["cd"].append(proxy(app, number, cluster, phase))
        readings.pods[cluster].append(delegate(app, number, cluster, phase))
        readings.chaperons[cluster].append({"metadata": {"name": f"{app}-{number}-x"}})


def running(clusters: tuple[str, ...] = TARGETS) -> Readings:
    """Return the readings after the Deployment's rollout, with one pod per entry of `clusters`."""
    readings = fresh()
    add(readings, DEPLOYMENT, clusters, "Running")
    count = len(clusters)
    fields = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    obj = deployment(count) | {"kind": DEPLOYMENTS.name}
    obj["metadata"]["generation"] = 2
    obj["status"] = {"observedGeneration": 2, **dict.fromkeys(fields, count)}
    readings.workloads.append(obj)
    return readings


def counted(completions: int) -> Readings:
    """Return the readings after the Job has completed, next to the running Deployment."""
    readings = running()
    add(readings, JOB, ("us",) * completions, "Succeeded")
    obj = job(completions, 1) | {"kind": JOBS.name}
    obj["status"] = {"succeeded": completions, "conditions": [{"type": "Complete", "status": "True"}]}
    readings.workloads.append(obj)
    return readings
