"""Messages to users who apply a workload, about the pods that it creates."""

from collections.abc import Sequence
from typing import Any

import pytest

from webhook import pods, workloads
from webhook.review import Answer, Malformed, Outcome

Raw = dict[str, Any]

ELECT = "multicluster.admiralty.io/elect"


class Known:
    def __init__(self, *missing: str) -> None:
        self._missing = list(missing)

    def finalizers(self, namespace: str) -> Sequence[str]:
        return ["multicluster.admiralty.io/default-eu"]

    def missing(self, namespace: str, pod: Raw) -> list[str]:
        assert namespace == "default"
        return [f"{pod['spec'].get('serviceAccountName')} {what}" for what in self._missing]


def template(**annotations: str) -> Raw:
    spec = {"serviceAccountName": "builder", "containers": [{"name": "main", "image": "app"}]}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def request(obj: Raw, operation: str = "CREATE") -> Raw:
    return {"uid": "u", "namespace": "default", "operation": operation, "object": obj}


def workload(kind: str, made: Raw, **metadata: Any) -> Raw:
    spec = {"jobTemplate": {"spec": {"template": made}}} if kind == "CronJob" else {"template": made}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "web", **metadata}, "spec": spec}


def answered(asked: Raw, known: Known, *, by_default: bool = False) -> Answer:
    of_pod = pods.answer(workloads.first_pod(asked), known, by_default=by_default)
    return workloads.told(asked, of_pod)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"])
def test_what_its_pods_miss_is_one_warning_with_all_of_it(kind: str, operation: str) -> None:
    told = answered(request(workload(kind, template(**{ELECT: ""})), operation), Known("is missing", "is late"))
    assert told.review["response"] == {
        "uid": "u",
        "allowed": True,
        "warnings": ["builder is missing; builder is late"],
    }


def test_nothing_is_told_of_pods_that_stay_here_or_miss_nothing() -> None:
    plain, alone = template(), template(**{"multicluster/elect": "false"})
    for made, by_default in ((plain, False), (alone, True)):
        told = answered(request(workload("Job", made)), Known("is missing"), by_default=by_default)
        assert told.review["response"] == {"uid": "u", "allowed": True}
    assert "warnings" not in answered(request(workload("Job", plain)), Known(), by_default=True).review["response"]
    assert answered(request(workload("Job", plain)), Known("is missing"), by_default=True).review["response"][
        "warnings"
    ]


def test_that_its_pods_will_be_refused_is_a_warning_and_nothing_is_refused() -> None:
    made = template(**{ELECT: "", "multicluster/scheduling": "never"})
    told = answered(request(workload("Deployment", made, generateName="w-")), Known())
    assert told.outcome is Outcome.VALID
    assert told.review["response"]["allowed"] is True
    (warning,) = told.review["response"]["warnings"]
    assert warning.startswith("its pods will be refused: ")
    assert "multicluster/scheduling" in warning


def test_a_group_of_a_workload_is_of_pods_that_are_made_again() -> None:
    group = {"group": "g", "group-size": "2", "group-on-failure": "restart"}
    made = template(**{ELECT: ""}, **{f"multicluster/{key}": value for key, value in group.items()})
    assert "warnings" not in answered(request(workload("Job", made)), Known()).review["response"]


@pytest.mark.parametrize(
    "obj", [None, {}, {"spec": {}}, {"spec": {"template": {}}}, {"spec": {"jobTemplate": {"spec": {}}}}]
)
def test_what_makes_no_pods_is_malformed(obj: Any) -> None:
    with pytest.raises(Malformed):
        workloads.first_pod({"uid": "u", "object": obj})
