from collections.abc import Callable
from typing import Any

import pytest

from hack.lab.demo.checks import Check, completed, deployed, empty, joined
from hack.lab.demo.fleet import Readings, assemble
from tests.sandbox.demo import moments

Spoil = Callable[[Readings], Any]


def missing(check: Check, readings: Readings) -> str:
    return "; ".join(check(assemble(readings)))


def spoil_delegate(**changes: Any) -> Spoil:
    return lambda readings: readings.pods["us"][0]["status"].update(changes)


def spoil_proxy(section: str, **changes: Any) -> Spoil:
    return lambda readings: readings.pods["cd"][0][section].update(changes)


def spoil_deployment(**changes: Any) -> Spoil:
    return lambda readings: readings.workloads[0]["status"].update(changes)


def move(readings: Readings, source: str, target: str) -> None:
    readings.pods[target].append(readings.pods[source].pop())


def test_joined_is_true_once_targets_and_virtual_nodes_are_ready() -> None:
    assert joined(moments.TARGETS)(assemble(moments.fresh())) == []


def test_a_target_or_virtual_node_that_is_not_ready_is_named() -> None:
    readings = moments.fresh()
    readings.targets[1]["status"] = moments.ready(False)
    readings.nodes["cd"][1]["status"] = moments.ready(False)
    told = missing(joined(moments.TARGETS), readings)
    assert "target eu is not ready" in told
    assert "virtual node admiralty-default-us is not ready" in told


def test_a_rolled_out_deployment_is_true() -> None:
    assert missing(deployed(2, moments.TARGETS), moments.running()) == ""
    assert missing(deployed(2, ["eu"], region="eu"), moments.running(("eu", "eu"))) == ""


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(lambda r: r.workloads.clear(), "does not exist", id="no Deployment"),
        pytest.param(
            spoil_deployment(observedGeneration=1), "has not seen the change", id="status of an older version"
        ),
        pytest.param(spoil_deployment(readyReplicas=1), "readyReplicas is 1, not 2", id="a replica is not ready"),
        pytest.param(spoil_deployment(updatedReplicas=1), "updatedReplicas is 1", id="an old replica is left"),
        pytest.param(lambda r: r.pods["cd"].pop(), "1 proxy pods instead of 2", id="a proxy pod is missing"),
        pytest.param(lambda r: r.pods["cd"].pop(), "delegates without a proxy pod", id="a delegate is an orphan"),
        pytest.param(lambda r: r.pods["eu"].pop(), "pod web-1: has 0 delegates", id="a delegate is missing"),
        pytest.param(
            lambda r: r.pods["eu"].append(moments.delegate("web", 0, "eu", "Running")),
            "pod web-0: has 2 delegates",
            id="a pod runs twice",
        ),
        pytest.param(lambda r: r.chaperons["us"].clear(), "1 PodChaperons", id="a chaperon is missing"),
        pytest.param(spoil_delegate(phase="Pending"), "its delegate us/web-0-x is Pending", id="a delegate waits"),
        pytest.param(spoil_proxy("status", phase="Pending"), "pod web-0: is Pending", id="a proxy pod waits"),
        pytest.param(spoil_proxy("status", **moments.ready(False)), "not ready", id="a proxy pod is not ready"),
        pytest.param(
            spoil_proxy("metadata", deletionTimestamp="2026-01-01T00:00:00Z"), "being deleted", id="a proxy pod goes"
        ),
        pytest.param(
            spoil_proxy("spec", nodeName="cd-node-0"), "not on a virtual node", id="a proxy pod on a real node"
        ),
        pytest.param(
            spoil_proxy("spec", schedulerName="default-scheduler"), "the webhook did not see it", id="not a proxy pod"
        ),
        pytest.param(
            lambda r: move(r, "us", "eu"), "is on admiralty-default-us, and its delegate in eu", id="the wrong cluster"
        ),
    ],
)
def test_what_is_wrong_with_a_deployment_is_told(spoil: Spoil, want: str) -> None:
    readings = moments.running()
    spoil(readings)
    assert want in missing(deployed(2, moments.TARGETS), readings)


def test_a_pinned_deployment_must_run_in_its_region_alone() -> None:
    told = missing(deployed(2, ["eu"], region="eu"), moments.running())
    assert "delegates run in eu, us instead of eu" in told
    assert "outside of region eu: us 1" in told


def test_a_deployment_must_use_every_cluster_it_should() -> None:
    assert "delegates run in us instead of eu, us" in missing(
        deployed(2, moments.TARGETS), moments.running(("us", "us"))
    )


def test_a_complete_job_is_true() -> None:
    assert missing(completed(3), moments.counted(3)) == ""


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"succeeded": 4}, "4 of 3 succeeded", id="a completion counted twice"),
        pytest.param({"failed": 1}, "1 failed", id="a pod failed"),
        pytest.param({"conditions": []}, "is not complete", id="not complete yet"),
    ],
)
def test_what_is_wrong_with_a_job_is_told(status: dict[str, Any], want: str) -> None:
    readings = moments.counted(3)
    readings.workloads[-1]["status"].update(status)
    assert want in missing(completed(3), readings)


def test_a_job_whose_delegate_still_runs_is_not_true() -> None:
    readings = moments.counted(1)
    readings.pods["us"][-1]["status"]["phase"] = "Running"
    assert "its delegate us/count-0-x is Running" in missing(completed(1), readings)


def test_empty_is_true_of_clusters_with_nothing_in_them() -> None:
    assert missing(empty, moments.fresh()) == ""


def test_everything_left_is_named() -> None:
    told = missing(empty, moments.running())
    for want in ("2 proxy pods", "PodChaperons in us", "delegate pods left: eu 1, us 1", "Deployment web"):
        assert want in told


def test_a_pod_that_is_no_proxy_pod_counts_as_left() -> None:
    readings = moments.fresh()
    readings.pods["eu"].append({"metadata": {"name": "mine"}, "spec": {}})
    assert "1 other pods left" in missing(empty, readings)
