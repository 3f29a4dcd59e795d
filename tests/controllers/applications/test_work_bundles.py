"""Bundles of P2CODE's applications as ManifestWorks, and the feedback of work agents."""

from typing import Any

import msgspec
import pytest

from agent.applications.manifestworks import without_contents
from agent.applications.work_bundles import Report, holds, manifest_work, once, report, work_name, workloads
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.manifests import Identity, read
from tests.model.applications import Raw, manifest, workload

PATHS = {
    "Deployment": {"readyReplicas": ".status.readyReplicas"},
    "StatefulSet": {"readyReplicas": ".status.readyReplicas"},
    "ReplicaSet": {"readyReplicas": ".status.readyReplicas"},
    "DaemonSet": {
        "desiredNumberScheduled": ".status.desiredNumberScheduled",
        "numberReady": ".status.numberReady",
    },
    "Job": {
        "ready": ".status.ready",
        "succeeded": ".status.succeeded",
        "Complete": '.status.conditions[?(@.type=="Complete")].status',
    },
    "Pod": {"phase": ".status.phase", "Ready": '.status.conditions[?(@.type=="Ready")].status'},
    "CronJob": {},
}


def bundle(*manifests: Raw, name: str = "web") -> Bundle:
    return Bundle(name, read(manifests, here=False).manifests)


def configs(*manifests: Raw) -> Any:
    return manifest_work(bundle(*manifests), "eu", "web-shop")["spec"].get("manifestConfigs")


@pytest.mark.parametrize(
    ("mode", "named"), [("workloads", "web-shop"), ("cluster", "eu-shop"), ("default", "default-shop")]
)
def test_it_is_named_as_p2code_names_it(mode: Any, named: str) -> None:
    assert work_name(bundle(name="default" if mode == "default" else "web"), "eu", "shop", mode) == named


def test_a_long_name_is_cut_with_a_digest() -> None:
    found = work_name(bundle(), "eu", "s" * 60, "workloads")
    assert found.startswith(f"web-{'s' * 48}-")
    assert len(found) == 63


def test_it_has_the_manifests_as_they_are_in_the_namespace_of_the_cluster() -> None:
    manifests = [workload(), manifest("ConfigMap", "settings", data={"a": "b"})]
    found = manifest_work(bundle(*manifests), "eu", "web-shop")
    assert found["metadata"] == {"name": "web-shop", "namespace": "eu"}
    assert found["spec"]["workload"] == {"manifests": manifests}
    assert (found["apiVersion"], found["kind"]) == ("work.open-cluster-management.io/v1", "ManifestWork")


def test_claims_are_applied_by_server_side_apply() -> None:
    named = {"group": "", "resource": "persistentvolumeclaims", "namespace": "demo", "name": "data"}
    assert configs(manifest("PersistentVolumeClaim", "data"), manifest("ConfigMap")) == [
        {"resourceIdentifier": named, "updateStrategy": {"type": "ServerSideApply"}}
    ]
    assert configs(manifest("ConfigMap")) is None


@pytest.mark.parametrize("kind", PATHS)
def test_of_workloads_it_is_asked_how_many_pods_are_ready(kind: str) -> None:
    found = configs(workload(kind=kind)) or []
    asked = {path["name"]: path["path"] for each in found for path in each["feedbackRules"][0]["jsonPaths"]}
    assert asked == PATHS[kind]
    assert [each["resourceIdentifier"]["resource"] for each in found] == [f"{kind.lower()}s"] * bool(asked)


def condition(type: str, status: str, message: str = "", generation: int | None = None) -> Raw:
    found = {"type": type, "status": status, "message": message}
    return found if generation is None else {**found, "observedGeneration": generation}


def told(*conditions: Raw, values: Raw | None = None, kind: str = "Deployment", group: str = "apps") -> Raw:
    meta = {"group": group, "kind": kind, "namespace": "demo", "name": "web", "ordinal": 0}
    fields = {str: ("String", "string"), int: ("Integer", "integer")}
    feedback = [
        {"name": name, "fieldValue": {"type": fields[type(value)][0], fields[type(value)][1]: value}}
        for name, value in (values or {}).items()
    ]
    return {"resourceMeta": meta, "conditions": list(conditions), "statusFeedback": {"values": feedback}}


def work(*manifests: Raw, conditions: tuple[Raw, ...] = (), generation: int = 2) -> Raw:
    metadata = {"name": "web-shop", "namespace": "eu", "generation": generation}
    return {
        "metadata": metadata,
        "status": {"conditions": list(conditions), "resourceStatus": {"manifests": list(manifests)}},
    }


DONE = (condition("Applied", "True", generation=2),)
GOOD = (condition("Applied", "True"), condition("Available", "True"))
WEB = Identity("apps", "Deployment", "demo", "web")
REPORTS: dict[str, tuple[Raw, Report]] = {
    "nothing yet": ({"metadata": {"name": "web-shop", "namespace": "eu"}}, Report(False, (), {})),
    "of an earlier one": (
        work(told(*GOOD), conditions=(condition("Applied", "True", generation=1),)),
        Report(False, (), {WEB: {}}),
    ),
    "all of it": (work(told(*GOOD), conditions=DONE), Report(True, (), {WEB: {}})),
    "by an agent that tells no generation": (
        work(told(*GOOD), conditions=(condition("Applied", "True"),)),
        Report(True, (), {WEB: {}}),
    ),
    "nothing of the manifests": (work(conditions=DONE), Report(False, (), {})),
    "one that cannot be applied": (
        work(told(condition("Applied", "False", "no"), condition("Available", "False", "no, either")), conditions=DONE),
        Report(True, ("Deployment demo/web in eu: no",), {}),
    ),
    "one that is not there": (
        work(told(condition("Applied", "True"), condition("Available", "False", "gone")), conditions=DONE),
        Report(True, ("Deployment demo/web in eu: gone",), {}),
    ),
    "one of which it is not known": (
        work(told(condition("Applied", "True"), condition("Available", "Unknown", "?")), conditions=DONE),
        Report(True, (), {}),
    ),
    "an agent that could not begin": (
        work(conditions=(condition("Applied", "False", "no executor", generation=2),)),
        Report(True, ("ManifestWork eu/web-shop: no executor",), {}),
    ),
}


@pytest.mark.parametrize("about", REPORTS)
def test_what_is_told_is_read(about: str) -> None:
    raw, wanted = REPORTS[about]
    assert report(raw) == wanted


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"readyReplicas": 2}, {"readyReplicas": 2}),
        (
            {"phase": "Running", "Ready": "True"},
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        ),
        ({"ready": 1, "Complete": "False"}, {"ready": 1, "conditions": [{"type": "Complete", "status": "False"}]}),
    ],
)
def test_values_are_those_of_a_status(values: Raw, status: Raw) -> None:
    assert report(work(told(*GOOD, values=values), conditions=DONE)).statuses == {WEB: status}


@pytest.mark.parametrize(
    ("manifests", "twice"),
    [
        ([workload()], True),
        ([workload(kind="DaemonSet"), workload("r", "ReplicaSet")], True),
        ([workload(), manifest("PersistentVolumeClaim")], False),
        ([workload(kind="StatefulSet")], False),
        ([workload(kind="Job")], False),
        ([workload(kind="CronJob")], False),
        ([workload(kind="Pod")], False),
    ],
)
def test_what_keeps_data_or_counts_must_not_run_twice(manifests: list[Raw], twice: bool) -> None:
    assert (not once(bundle(*manifests))) is twice


def test_what_is_in_one_is_known_though_only_names_are_kept() -> None:
    secret = manifest("Secret", "keys", stringData={"a": "geheim"})
    whole = manifest_work(bundle(workload(), secret, manifest("Namespace", "demo")), "eu", "web-shop")
    kept = without_contents(msgspec.json.encode(whole))
    assert b"geheim" not in kept
    found = holds(msgspec.json.decode(kept))
    assert found == {WEB, Identity("", "Secret", "demo", "keys"), Identity("", "Namespace", "", "demo")}
    assert workloads(bundle(workload(), secret)) <= found
