"""Progress of the workloads of an application."""

from typing import Any

import pytest

from agent.model.p2code.manifests import Identity, read
from agent.model.p2code.progress import Count, Stuck, There, cannot_move, count, readiness, stuck_of
from agent.model.p2code.status import Told
from tests.model.applications import Raw, bundled, workload

COMPLETE = [{"type": "Complete", "status": "True"}]
PLACED = "multicluster/Placed"


@pytest.mark.parametrize(
    ("kind", "spec", "status", "counted"),
    [
        ("Deployment", {}, {}, (0, 1)),
        ("Deployment", {"replicas": 3}, {"readyReplicas": 2}, (2, 3)),
        ("Deployment", {"replicas": 1}, {"readyReplicas": 2}, (1, 1)),
        ("Deployment", {"replicas": 0}, {}, (0, 0)),
        ("StatefulSet", {"replicas": 2}, {"readyReplicas": 2}, (2, 2)),
        ("ReplicaSet", {"replicas": 2}, {"readyReplicas": 1}, (1, 2)),
        ("Pod", {}, {"conditions": [{"type": "Ready", "status": "True"}]}, (1, 1)),
        ("Pod", {}, {"phase": "Succeeded"}, (1, 1)),
        ("Pod", {}, {"phase": "Failed"}, (0, 1)),
        ("Job", {}, {"ready": 1}, (1, 1)),
        ("Job", {"parallelism": 2, "completions": 5}, {"succeeded": 2, "ready": 1}, (3, 4)),
        ("Job", {"parallelism": 2, "completions": 5}, {"succeeded": 4}, (4, 5)),
        ("Job", {"completions": 5}, {"succeeded": 5, "conditions": COMPLETE}, (5, 5)),
        ("Job", {"suspend": True}, {}, (0, 0)),
        ("CronJob", {}, {"active": [{}]}, (0, 0)),
    ],
)
def test_pods_are_counted_as_each_kind_tells(kind: str, spec: Raw, status: Raw, counted: tuple[int, int]) -> None:
    (manifest,) = read([workload(kind=kind)]).manifests
    assert count(manifest, {"spec": spec, "status": status}) == Count(*counted)


def test_of_what_is_not_there_yet_the_manifest_says_how_many_are_wanted() -> None:
    (manifest,) = read([{**workload(replicas=4), "status": {"readyReplicas": 4}}]).manifests
    assert count(manifest, None) == Count(0, 4)


def test_bundles_that_lack_pods_are_told_first() -> None:
    bundles = bundled(workload("web"), workload("api", replicas=2)).bundles

    def there(identity: Identity) -> There:
        return There({"spec": {"replicas": 2}, "status": {"readyReplicas": 2 if identity.name == "web" else ready}})

    ready = 1
    assert readiness(bundles, there) == Told("WorkloadsReady", "NotReady", "ready: api 1 of 2, web 2 of 2", "False")
    ready = 2
    assert readiness(bundles, there) == Told("WorkloadsReady", "Ready", "ready: web 2 of 2, api 2 of 2", "True")


def test_many_bundles_are_told_in_part() -> None:
    bundles = bundled(*(workload(f"w{number}") for number in range(22))).bundles
    told = readiness(bundles, lambda _: There())
    assert told.message.startswith("ready: w0 0 of 1, w1 0 of 1")
    assert told.message.endswith("w19 0 of 1 and 2 more")


def test_pods_that_stay_where_they_should_not_be_are_told() -> None:
    bundles = bundled(workload("db", "StatefulSet"), workload("web")).bundles
    volume = Stuck("db-1", "DataElsewhere", "the volume of its claim data-db-1 is there")
    pods: dict[str, Any] = {"db": [volume, Stuck("db-0", "Held", "as it says")]}
    told = cannot_move(bundles, lambda identity: There({}, pods.get(identity.name, ())))
    words = "workload db: pod db-0: as it says; workload db: pod db-1: the volume of its claim data-db-1 is there"
    assert told == Told("CannotMove", "Held", words)
    pods["web"] = [Stuck(f"web-{number}", "NoRoom", "it is full") for number in range(3)]
    assert cannot_move(bundles, lambda identity: There({}, pods.get(identity.name, ()))).message.endswith(
        "; and 2 more"
    )
    assert cannot_move(bundles, lambda _: There()).reason == ""


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("Deployment", "remove agent.settings.moves=false, or kubectl rollout restart -n demo deployment/web"),
        ("StatefulSet", "remove agent.settings.moves=false, or kubectl rollout restart -n demo statefulset/web"),
        ("ReplicaSet", "the agent moves none: remove agent.settings.moves=false, or delete its pods"),
        ("Job", "it finishes where it is, or is made anew there: kubectl delete -n demo job/web"),
        ("CronJob", "what has begun finishes where it is"),
        ("Pod", "it never moves: delete it, and it is made anew there"),
    ],
)
def test_pods_that_stay_because_the_agent_moves_none_are_told_with_the_remedy(kind: str, remedy: str) -> None:
    bundles = bundled(workload("web", kind)).bundles
    told = cannot_move(bundles, lambda _: There({}, left=("web-b", "web-a")))
    assert (told.type, told.reason) == ("CannotMove", "MovesOff")
    assert told.message.startswith(f"workload web: pods of {kind.lower()}/web are elsewhere (web-a, web-b): ")
    assert told.message.endswith(remedy)


@pytest.mark.parametrize(
    ("status", "reason", "stuck"),
    [("False", "Held", True), ("False", "Moving", False), ("False", "Misplaced", False), ("True", "Placed", False)],
)
def test_a_pod_that_moves_is_not_stuck(status: str, reason: str, stuck: bool) -> None:
    condition = {"type": PLACED, "status": status, "reason": reason, "message": "why"}
    pod = {"metadata": {"name": "web-0"}, "status": {"conditions": [condition]}}
    assert stuck_of(pod, PLACED) == (Stuck("web-0", reason, "why") if stuck else None)
    assert stuck_of({"metadata": {"name": "web-0"}}, PLACED) is None
