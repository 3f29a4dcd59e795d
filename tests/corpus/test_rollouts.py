"""Completion of a workload's rollout, by kubectl's rules."""

from typing import Any

import pytest

from hack.lab.corpus.rollouts import waiting

UPDATED = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}
DONE = [{"type": "Complete", "status": "True"}]
LATE = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]


@pytest.mark.parametrize(
    ("kind", "spec", "status", "said"),
    [
        ("Deployment", {"replicas": 2}, UPDATED, ""),
        ("Deployment", {"replicas": 3}, UPDATED, "2 of 3 pods are updated"),
        ("Deployment", {"replicas": 2}, UPDATED | {"replicas": 3}, "1 old pods are left"),
        ("Deployment", {"replicas": 2}, UPDATED | {"availableReplicas": 1}, "1 of 2 pods are available"),
        ("Deployment", {"replicas": 2}, UPDATED | {"conditions": LATE}, "its progress deadline is exceeded"),
        ("Deployment", {"replicas": 0}, {}, ""),
        ("StatefulSet", {"replicas": 2}, UPDATED, ""),
        ("StatefulSet", {"replicas": 2}, UPDATED | {"readyReplicas": 1}, "1 of 2 pods are ready"),
        ("StatefulSet", {"replicas": 3}, UPDATED | {"readyReplicas": 3}, "2 of 3 pods are updated"),
        (
            "StatefulSet",
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            UPDATED | {"readyReplicas": 3},
            "",
        ),
        ("ReplicaSet", {"replicas": 2}, UPDATED, ""),
        ("ReplicaSet", {}, {}, "0 of 1 pods are available"),
        ("Job", {}, {"conditions": DONE}, ""),
        ("Job", {"suspend": True}, {}, ""),
        ("Job", {}, {"succeeded": 1}, "1 pods have succeeded"),
        ("PersistentVolumeClaim", {}, {"phase": "Bound"}, ""),
        ("PersistentVolumeClaim", {}, {"phase": "Pending"}, "it is Pending"),
        ("Pod", {}, {"phase": "Succeeded"}, ""),
        ("Pod", {}, {"phase": "Running"}, "it is not Ready"),
        ("ConfigMap", {}, {}, ""),
    ],
)
def test_a_workload_waits_for(kind: str, spec: dict[str, Any], status: dict[str, Any], said: str) -> None:
    assert waiting({"kind": kind, "metadata": {"name": "one"}, "spec": spec, "status": status}) == said


def test_a_workload_waits_for_its_controller() -> None:
    seen = {"kind": "Deployment", "metadata": {"generation": 2}, "spec": {}, "status": {"observedGeneration": 1}}
    assert waiting(seen) == "its controller has not seen it"
