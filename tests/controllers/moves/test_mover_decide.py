"""Next steps for the pods of one owner: each step, and each reason to wait."""

from dataclasses import replace
from typing import Any

import pytest

from agent.model import replacement
from agent.moves.mover.capacity import Packing, room
from agent.moves.mover.decide import decide
from agent.moves.mover.owners import OwnerPods, owner
from agent.moves.mover.view import Action, Adopt, Create, Discard, Evict, Fail, Mark, Owner, Pod, Restore, Tell, reasons
from agent.ranking.snapshot import PodTemplate

Raw = dict[str, Any]

SURGE = Owner("ReplicaSet", "web", "surge", replicas=2)
EVICT = Owner("StatefulSet", "db", "evict", replicas=2)
A = Pod("web-a", "a")
O = Pod("web-o", "o", cause="Targets")  # noqa: E741
MARKED = replace(O, replaced_by="n")
N = Pod("web-n", "n", owned=False, selected=False, replaces="o")
STARTING = replace(N, available=False, announced=False)
ADOPTED = Pod("web-n", "n")


def steps(owner: Owner, *pods: Pod) -> list[str]:
    """Return the types of the decided actions, except for messages."""
    return [type(action).__name__ for action in decide(owner, pods).actions if not isinstance(action, Tell)]


def told(owner: Owner, *pods: Pod) -> list[tuple[str, str]]:
    """Return the UID of the pod and the reason of each message."""
    return [(action.pod.uid, action.reason) for action in decide(owner, pods).actions if isinstance(action, Tell)]


@pytest.mark.parametrize(
    ("pods", "wanted"),
    [
        ((A, O), [Create]),
        ((A, O, STARTING), []),
        ((A, O, replace(STARTING, placed=False)), []),
        ((A, O, replace(N, announced=False)), []),
        ((A, O, N), [Mark]),
        ((A, O, replace(N, cause="FailBack")), [Mark]),
        ((A, MARKED, N), [Adopt]),
        ((A, replace(MARKED, answers=False, cause="Lost"), N), [Adopt]),
        ((A, MARKED, replace(N, selected=True, replaces="")), []),
        ((A, MARKED, ADOPTED), []),
        ((A, replace(MARKED, deleting=True), ADOPTED), []),
        ((A, ADOPTED), []),
    ],
    ids=[
        "no replacement",
        "it starts",
        "it has no node",
        "it is not known everywhere",
        "it serves",
        "it serves, and would rather be elsewhere",
        "the old one is marked",
        "the old one is marked, and its target is lost",
        "about to be adopted",
        "the old one is about to be deleted",
        "the old one ends",
        "done",
    ],
)
def test_steps_of_a_replacement(pods: tuple[Pod, ...], wanted: list[type[Action]]) -> None:
    assert steps(SURGE, *pods) == [each.__name__ for each in wanted]


@pytest.mark.parametrize(
    ("pods", "wanted"),
    [
        ((A, replace(O, cause=""), N), [Discard]),
        ((A, replace(MARKED, cause=""), N), [Restore]),
        ((A, MARKED, replace(N, available=False)), [Restore]),
        ((A, MARKED, replace(N, cause="Lost", answers=False)), [Restore]),
        ((A, MARKED, replace(N, answers=False)), []),
        ((A, O, replace(N, answers=False)), []),
        ((A, replace(O, cause="FailBack"), replace(N, cause="FailBack")), [Discard]),
        ((A, MARKED), [Restore]),
        ((A, N), [Discard]),
        ((A, replace(O, deleting=True), N), [Discard]),
        ((A, replace(O, ended=True), N), [Discard]),
        ((A, O, replace(N, outdated=True)), [Discard]),
        ((A, MARKED, replace(N, outdated=True)), [Adopt]),
        ((A, O, N, replace(N, name="web-m", uid="m")), [Mark, Discard]),
        ((MARKED, ADOPTED), [Restore]),
        ((A, replace(O, answers=False), N), []),
        ((A, replace(MARKED, answers=False), N), []),
    ],
    ids=[
        "well placed again",
        "well placed again, and marked",
        "the replacement fails, and the old one is marked",
        "the replacement's target is lost, and the old one is marked",
        "the replacement's target does not answer, and the old one is marked",
        "the replacement's target does not answer",
        "the replacement's target is no better",
        "the replacement is gone",
        "the old one is gone",
        "the old one ends",
        "the old one has failed",
        "another template",
        "another template, when it is nearly over",
        "two of them",
        "the owner took another",
        "its target does not answer",
        "its target does not answer, and it is marked",
    ],
)
def test_what_is_undone(pods: tuple[Pod, ...], wanted: list[type[Action]]) -> None:
    assert steps(SURGE, *pods) == [each.__name__ for each in wanted]


def test_what_holds_an_owner_undoes_only_what_is_not_nearly_over() -> None:
    held = replace(SURGE, held="its Deployment is paused")
    assert steps(held, A, O) == []
    assert told(held, A, O) == [("o", "Held")]
    assert steps(held, A, O, N) == ["Discard"]
    assert steps(held, A, MARKED, N) == ["Adopt"]


def test_one_that_has_no_node_holds_up_the_others_and_none_is_more_than_its_owner_may_have() -> None:
    second = replace(O, name="web-p", uid="p")
    wide = replace(SURGE, surge=2)
    assert steps(wide, O, second) == ["Create"]
    assert steps(wide, O, second, replace(STARTING, placed=False)) == []
    assert steps(wide, O, second, STARTING) == ["Create"]
    assert steps(SURGE, O, second, STARTING) == []
    wider, late = (
        replace(SURGE, replicas=4, surge=4),
        replace(STARTING, name="web-m", uid="m", replaces="p", placed=False),
    )
    third = replace(O, name="web-q", uid="q")
    assert steps(wider, O, second, third, STARTING, replace(late, placed=True)) == ["Create"]
    assert steps(wider, O, second, third, STARTING, replace(late, waits=True)) == []
    assert ("o", "Moving") in told(wide, O, second, replace(STARTING, placed=False))
    assert ("o", "NoRoom") in told(wide, O, second, replace(STARTING, placed=False, waits=True))


def test_a_replacement_in_a_silent_target_holds_up_no_other_pod_of_its_owner() -> None:
    second, gone = replace(O, name="web-p", uid="p"), replace(STARTING, answers=False, silent=True)
    assert steps(SURGE, O, second, replace(gone, silent=False)) == [], "the target may answer in a moment"
    assert steps(SURGE, O, second, gone) == ["Discard"]
    assert steps(SURGE, O, second, replace(gone, deleting=True)) == ["Create"]
    other, marked = replace(N, name="web-m", uid="m", replaces="p"), replace(second, replaced_by="m", rank=1)
    assert steps(SURGE, MARKED, marked, replace(N, answers=False, silent=True), other) == ["Restore"]
    assert steps(SURGE, O, marked, replace(N, answers=False, silent=True), other) == ["Discard", "Adopt"]
    adopting = replace(N, answers=False, silent=True, selected=True)
    assert steps(SURGE, MARKED, marked, adopting, other) == [], "its owner may be about to delete the marked pod"


def test_names_stand_for_the_pod_that_is_replaced_and_none_is_taken_twice() -> None:
    (create,) = [action for action in decide(SURGE, (A, O)).actions if isinstance(action, Create)]
    assert create.name == replacement.name("web", "o", 0)
    (again,) = [
        action for action in decide(SURGE, (replace(A, name=create.name), O)).actions if isinstance(action, Create)
    ]
    assert again.name == replacement.name("web", "o", 1)


def test_of_those_that_are_marked_none_goes_before_the_first_may() -> None:
    second = Pod("web-p", "p", cause="Targets", replaced_by="m", rank=1)
    other = replace(N, name="web-m", uid="m", replaces="p")

    def adopted(*pods: Pod) -> list[str]:
        return [action.old.uid for action in decide(SURGE, pods).actions if isinstance(action, Adopt)]

    assert adopted(MARKED, second, N, other) == ["o", "p"]
    silent = replace(N, answers=False)
    assert adopted(MARKED, second, N, replace(silent, name="web-m", uid="m", replaces="p")) == ["o"]
    assert adopted(MARKED, second, silent, other) == []
    assert adopted(MARKED, replace(second, rank=0), silent, other) == []
    # The owner has already adopted the first replacement, and is about to delete the replaced pod.
    assert adopted(MARKED, second, replace(N, owned=True, selected=True, replaces=""), other) == ["p"]


def test_replacements_are_created_as_fast_as_others_find_a_node() -> None:
    old = [replace(O, name=f"web-{each}", uid=f"o{each}") for each in range(6)]
    new = [replace(N, name=f"web-n{each}", uid=f"n{each}", replaces=f"o{each}", available=False) for each in range(6)]
    owner = replace(SURGE, replicas=6, surge=5)

    def created(*pods: Pod) -> int:
        return sum(isinstance(action, Create) for action in decide(owner, (*old, *pods)).actions)

    assert created() == 1
    assert created(replace(new[0], placed=False)) == 0
    assert created(new[0]) == 1
    assert created(*new[:2]) == 2
    assert created(*new[:2], replace(new[2], placed=False)) == 1
    assert created(*new[:4]) == 1


def test_one_whose_target_does_not_answer_does_not_hold_up_those_that_are_marked_after_it() -> None:
    frozen = replace(MARKED, answers=False)
    other, its = replace(O, name="web-p", uid="p"), replace(N, name="web-m", uid="m", replaces="p")
    assert steps(SURGE, frozen, replace(other, replaced_by="m", rank=1), N, its) == ["Restore"]
    assert steps(SURGE, frozen, other, N, its) == ["Mark"]
    assert steps(SURGE, frozen, replace(other, replaced_by="m", rank=1, answers=False), N, its) == []
    assert steps(SURGE, O, replace(other, replaced_by="m", rank=1), replace(N, answers=False), its) == ["Adopt"]
    assert told(SURGE, A, frozen, N) == [("o", "Held")]


@pytest.mark.parametrize(
    ("owner", "pods", "wanted"),
    [
        (EVICT, (Pod("db-0", "x", cause="Retire"), Pod("db-1", "y", cause="Retire")), ["y"]),
        (EVICT, (Pod("db-0", "x", cause="Retire"), Pod("db-1", "y", available=False)), []),
        (replace(EVICT, refused="it would run here"), (Pod("db-0", "x", cause="Retire"), Pod("db-1", "y")), []),
        (EVICT, (Pod("db-0", "x", cause="Retire"),), []),
        (EVICT, (Pod("db-0", "x", cause="Retire"), Pod("db-1", "y", cause="Retire", available=False)), ["y"]),
        (EVICT, (Pod("db-0", "x", cause="Retire", room="us is full"), Pod("db-1", "y")), []),
        (EVICT, (Pod("db-0", "x", cause="Retire"), Pod("db-1", "y", cause="Targets", room="no other target")), ["x"]),
        (EVICT, (Pod("db-0", "x", cause="Lost", answers=False), Pod("db-1", "y")), []),
        (EVICT, (Pod("db-0", "x", cause="Lost", answers=False, certified=True), Pod("db-1", "y")), ["x"]),
        (EVICT, (Pod("db-0", "x", cause="Lost", answers=False, fence=0.0), Pod("db-1", "y")), ["x"]),
        (EVICT, (Pod("db-0", "x", cause="Lost", answers=False, fence=0.1), Pod("db-1", "y")), []),
        (EVICT, (Pod("db-0", "x", cause="Retire", answers=False, fence=0.0), Pod("db-1", "y")), []),
        (replace(EVICT, kind="StatefulSet.apps.kruise.io"), (Pod("a-0", "x", cause="Lost", answers=False), A), []),
        (replace(EVICT, way="stay", why="it finishes"), (Pod("db-0", "x", cause="Retire"), Pod("db-1", "y")), []),
    ],
    ids=[
        "the highest ordinal first",
        "another is not available",
        "another one would not be a proxy pod",
        "one is missing",
        "those that are to go hold nobody up",
        "no room",
        "no room for another that was sent elsewhere alone",
        "it may run still",
        "a person says that it does not",
        "its fence has stopped it",
        "its fence has not stopped it yet",
        "its fence has stopped it, but its target is not lost",
        "it may run still, of a kind that others have made",
        "not at all",
    ],
)
def test_evictions(owner: Owner, pods: tuple[Pod, ...], wanted: list[str]) -> None:
    assert [action.old.uid for action in decide(owner, pods).actions if isinstance(action, Evict)] == wanted


RETIRED = Pod("db-1", "y", cause="Retire")
WITHDRAWN = replace(RETIRED, withdrawn=True)
OTHER = Pod("db-0", "x")


@pytest.mark.parametrize(
    ("owner", "pods", "wanted"),
    [
        (EVICT, (OTHER, RETIRED), [Evict]),
        (EVICT, (OTHER, replace(RETIRED, deleting=True)), []),
        (EVICT, (replace(OTHER, announced=False), RETIRED), []),
        (EVICT, (OTHER, WITHDRAWN), [Restore, Evict]),
        (EVICT, (OTHER, replace(WITHDRAWN, deleting=True)), []),
        (EVICT, (OTHER, replace(WITHDRAWN, cause="")), [Restore]),
        (EVICT, (replace(OTHER, available=False), WITHDRAWN), [Restore]),
        (EVICT, (OTHER, replace(WITHDRAWN, room="us is full")), [Restore]),
        (replace(EVICT, way="stay", why="it finishes"), (OTHER, WITHDRAWN), [Restore]),
        (EVICT, (OTHER, replace(WITHDRAWN, answers=False)), [Restore]),
        (replace(SURGE, surge=0), (A, replace(O, withdrawn=True)), [Restore]),
        (SURGE, (A, replace(O, withdrawn=True), N), [Mark]),
    ],
    ids=[
        "it goes",
        "it ends",
        "another one is not known everywhere",
        "withdrawn by an earlier version",
        "withdrawn, and it ends",
        "withdrawn, and well placed again",
        "withdrawn, and another one has failed",
        "withdrawn, and the room is gone",
        "withdrawn, and its owner says that it stays",
        "withdrawn, and its target does not answer",
        "withdrawn, and a replacement can be first, after all",
        "withdrawn, and a replacement is there, after all",
    ],
)
def test_what_is_evicted_goes_at_once_and_labels_that_an_earlier_version_took_off_come_back(
    owner: Owner, pods: tuple[Pod, ...], wanted: list[type[Action]]
) -> None:
    assert steps(owner, *pods) == [each.__name__ for each in wanted]


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (replace(O, data=True, stays="the volume of its claim data is there"), "DataElsewhere"),
        (replace(O, stays="of a group"), "Held"),
        (replace(O, answers=False), "Held"),
        (O, "Moving"),
    ],
)
def test_what_is_told_of_a_pod_that_is_to_be_evicted(pod: Pod, reason: str) -> None:
    assert told(replace(EVICT, kind="ReplicaSet"), A, pod) == [("o", reason)]


def test_nothing_is_said_twice_and_a_pod_without_a_reason_only_that_it_has_none_any_more() -> None:
    (tell,) = [each for each in decide(replace(SURGE, held="paused"), (A, O)).actions if isinstance(each, Tell)]
    assert told(replace(SURGE, held="paused"), A, replace(O, told=f"{tell.reason}: {tell.message}")) == []
    assert told(SURGE, A) == []
    assert told(SURGE, replace(A, told="Held: paused")) == [("a", "")]


JOB = owner("Job", {"metadata": {"name": "work"}, "spec": {}}, None, OwnerPods())
DEAD = Pod("work-a", "o", cause="Lost", answers=False, certified=True)


@pytest.mark.parametrize(
    ("owner", "pod", "wanted"),
    [
        (JOB, DEAD, ["Fail"]),
        (replace(JOB, way="evict"), DEAD, ["Fail"]),
        (replace(JOB, refused="it would run here"), DEAD, "NoRoom"),
        (JOB, replace(DEAD, certified=False), "IdentityMayRun"),
        (JOB, replace(DEAD, answers=True), "Held"),
        (JOB, replace(DEAD, cause="Retire"), "Held"),
        (JOB, replace(DEAD, stays="the volume of its claim data is there", data=True), "DataElsewhere"),
        (JOB, replace(DEAD, stays="multicluster/move says never"), "Held"),
        (JOB, replace(DEAD, ended=True), []),
        (JOB, replace(DEAD, deleting=True), []),
        (owner("Job", None, None, OwnerPods("never")), DEAD, "Held"),
    ],
    ids=[
        "a person says that it does not run",
        "of a Job that lets it be evicted, too",
        "another one would not be a proxy pod",
        "it may run still",
        "its target answers, whatever a person says",
        "its target is to be emptied",
        "its data is there",
        "it is of a group",
        "it has ended already",
        "it is deleted already",
        "it is never to be moved",
    ],
)
def test_a_pod_of_a_job_has_failed_where_nothing_of_it_runs(owner: Owner, pod: Pod, wanted: list[str] | str) -> None:
    done = steps(owner, pod)
    assert (done, told(owner, pod)) == ((wanted, []) if isinstance(wanted, list) else ([], [("o", wanted)]))


LOST = replace(DEAD, name="db-0")
"""A pod of a lost target whose last known status is available."""
ELSEWHERE = Pod("db-2", "z", available=False)


@pytest.mark.parametrize(
    ("owner", "pods", "wanted"),
    [
        pytest.param(
            replace(EVICT, replicas=3), (LOST, replace(LOST, name="db-1", uid="y"), ELSEWHERE), "y", id="a quorum"
        ),
        pytest.param(
            replace(EVICT, replicas=3),
            (replace(LOST, available=False),),
            "o",
            id="its siblings were never made, since it has never been ready",
        ),
        pytest.param(
            replace(EVICT, replicas=3),
            (Pod("db-0", "o", cause="Targets", available=False),),
            "o",
            id="the same where nothing is lost",
        ),
        pytest.param(
            EVICT,
            (Pod("web-a", "a", cause="Retire"), Pod("web-b", "o", cause="Retire", available=False)),
            "o",
            id="what serves nobody goes before what serves",
        ),
        pytest.param(replace(EVICT, held="its StatefulSet rolls out"), (LOST, ELSEWHERE), "o", id="a rollout"),
    ],
)
def test_what_serves_nobody_waits_for_no_sibling(owner: Owner, pods: tuple[Pod, ...], wanted: str) -> None:
    assert [action.old.uid for action in decide(owner, pods).actions if isinstance(action, Evict)] == [wanted]


@pytest.mark.parametrize(
    ("owner", "pods"),
    [
        pytest.param(EVICT, (Pod("db-0", "o", cause="Retire"), ELSEWHERE), id="it serves"),
        pytest.param(EVICT, (replace(LOST, answers=True), ELSEWHERE), id="it is declared lost, and answers"),
        pytest.param(replace(EVICT, doubted=True, replicas=0, had=3), (LOST,), id="no other is made for it"),
        pytest.param(
            replace(EVICT, held="not seen yet", unseen=True), (LOST,), id="its controller has not seen its change yet"
        ),
    ],
)
def test_what_may_cost_something_waits(owner: Owner, pods: tuple[Pod, ...]) -> None:
    assert [action for action in decide(owner, pods).actions if isinstance(action, Evict)] == []


SILENT = replace(ELSEWHERE, answers=False, silent=True)


@pytest.mark.parametrize("sibling", [SILENT, replace(SILENT, cause="Lost"), replace(SILENT, deleting=True)])
def test_nothing_waits_for_a_sibling_in_a_silent_target_but_for_one_that_may_be_back_in_a_moment(sibling: Pod) -> None:
    owner, serves = replace(EVICT, replicas=2), Pod("db-0", "o", cause="Retire")
    assert [action.old.uid for action in decide(owner, (serves, sibling)).actions if isinstance(action, Evict)] == ["o"]
    assert steps(owner, serves, replace(sibling, silent=False)) == []
    assert steps(replace(owner, kind="ReplicaSet"), serves, replace(SILENT, deleting=True)) == []


def test_a_lost_pod_is_replaced_while_its_owner_rolls_out_and_the_replacement_is_kept() -> None:
    busy = replace(SURGE, held="its Deployment is paused")
    lost = replace(O, cause="Lost", answers=False)
    assert steps(busy, A, lost) == ["Create"]
    assert "Discard" not in steps(busy, A, lost, N)
    assert "Create" not in steps(replace(busy, unseen=True), A, lost)


def test_all_pods_of_a_job_have_failed_at_once() -> None:
    assert steps(JOB, DEAD, replace(DEAD, name="work-b", uid="p"), Pod("work-c", "q")) == ["Fail", "Fail"]


# How owners move ----------------------------------------------------------------------------------------------------


def replica_set(**spec: Any) -> Raw:
    return {"metadata": {"name": "web"}, "spec": {"replicas": 8, **spec}}


def deployment(status: Raw | None = None, **spec: Any) -> Raw:
    return {
        "kind": "Deployment",
        "metadata": {"name": "web", "generation": 1},
        "spec": {"replicas": 8, **spec},
        "status": {"observedGeneration": 1, "replicas": 8, "updatedReplicas": 8, **(status or {})},
    }


@pytest.mark.parametrize(
    ("parent", "asked", "wanted"),
    [
        (None, OwnerPods(), ("surge", 2)),
        (deployment(), OwnerPods(), ("surge", 2)),
        (deployment(strategy={"rollingUpdate": {"maxSurge": 1}}), OwnerPods(), ("surge", 1)),
        (deployment(strategy={"rollingUpdate": {"maxSurge": "100%"}}), OwnerPods(), ("surge", 2)),
        (deployment(strategy={"rollingUpdate": {"maxSurge": 0}}), OwnerPods(), ("evict", 0)),
        (deployment(strategy={"type": "Recreate"}), OwnerPods(), ("evict", 0)),
        (deployment(), OwnerPods("evict"), ("evict", 0)),
        (deployment(), OwnerPods(claims=True), ("evict", 0)),
        (deployment(), OwnerPods(unable="no right"), ("evict", 0)),
        ({"kind": "Rollout"}, OwnerPods(), ("evict", 0)),
    ],
)
def test_how_the_pods_of_a_replica_set_move(parent: Raw | None, asked: OwnerPods, wanted: tuple[str, int]) -> None:
    found = owner("ReplicaSet", replica_set(), parent, asked)
    assert (found.way, found.surge) == wanted
    assert bool(found.why) == (found.way == "evict")


@pytest.mark.parametrize(
    ("kind", "asked", "way"),
    [
        ("", OwnerPods(), "stay"),
        ("DaemonSet", OwnerPods(), "stay"),
        ("Job", OwnerPods(), "stay"),
        ("Job", OwnerPods("evict"), "evict"),
        ("Job.batch.volcano.sh", OwnerPods(), "stay"),
        ("DaemonSet.apps.kruise.io", OwnerPods(), "stay"),
        ("StatefulSet.apps.kruise.io", OwnerPods(), "evict"),
        ("Widget", OwnerPods(), "evict"),
        ("Widget", OwnerPods("never"), "stay"),
        ("Widget", OwnerPods(ends=True), "stay"),
        ("Widget", OwnerPods("evict", ends=True), "evict"),
    ],
)
def test_how_other_pods_move(kind: str, asked: OwnerPods, way: str) -> None:
    assert owner(kind, None, None, asked).way == way


WIDGET = owner("Widget", None, None, OwnerPods())
RUNS = owner("Widget", None, None, OwnerPods(ends=True))


@pytest.mark.parametrize(
    ("owner", "pods", "wanted"),
    [
        (WIDGET, (Pod("w-0", "x", cause="Retire"), Pod("w-1", "y", cause="Retire")), "Evict y"),
        (replace(WIDGET, had=3), (Pod("w-0", "x", cause="Retire"), A), "Held: of the 3 pods that its owner had 2"),
        (replace(WIDGET, had=3), (Pod("w-0", "x", cause="Retire"), Pod("w-1", "y", cause="Retire"), A), "Evict y"),
        (RUNS, (Pod("w-0", "x", cause="Retire"),), "Held: the pods of a Widget that run to an end finish"),
        (RUNS, (DEAD,), "Fail o"),
        (RUNS, (replace(DEAD, certified=False),), "IdentityMayRun"),
        (owner("Widget", None, None, OwnerPods("evict", ends=True)), (Pod("w-0", "x", cause="Retire"),), "Evict x"),
    ],
    ids=[
        "one at a time",
        "not before the owner has made another for the one before",
        "it has",
        "what runs to an end stays",
        "it does not run any more",
        "it may run still",
        "what runs to an end and is to be evicted",
    ],
)
def test_of_an_owner_of_a_kind_that_is_not_known(owner: Owner, pods: tuple[Pod, ...], wanted: str) -> None:
    found = []
    for action in decide(owner, pods).actions:
        match action:
            case Evict(old) | Fail(old):
                found.append(f"{type(action).__name__} {old.uid}")
            case Tell(reason=reason, message=message):
                found.append(f"{reason}: {message.partition('; ')[2]}")
            case _:
                found.append(str(action))
    assert any(each.startswith(wanted) for each in found)
    assert any(each.startswith(("Evict", "Fail")) for each in found) == wanted.startswith(("Evict", "Fail"))


def test_who_is_known_to_make_pods_again_is_not_doubted() -> None:
    assert WIDGET.doubted
    assert not owner("Widget", None, None, OwnerPods("evict")).doubted
    assert not owner("StatefulSet", {"metadata": {"name": "db"}, "spec": {}}, None, OwnerPods()).doubted


@pytest.mark.parametrize(
    ("parent", "word"),
    [
        (deployment(paused=True), "paused"),
        (deployment({"updatedReplicas": 3}), "rolls out"),
        (deployment({"observedGeneration": 0}), "not seen"),
        (deployment(), ""),
        (None, ""),
    ],
)
def test_a_deployment_that_is_busy_holds_moves(parent: Raw | None, word: str) -> None:
    held = owner("ReplicaSet", replica_set(), parent, OwnerPods()).held
    assert word in held
    assert bool(word) == bool(held)


def stateful_set(updated: int, **strategy: Any) -> Raw:
    return {
        "metadata": {"name": "db", "generation": 1},
        "spec": {"replicas": 3, "updateStrategy": strategy},
        "status": {
            "observedGeneration": 1,
            "currentRevision": "db-1",
            "updateRevision": "db-2",
            "updatedReplicas": updated,
        },
    }


@pytest.mark.parametrize(
    ("obj", "word"),
    [
        (stateful_set(1), "rolls out"),
        (stateful_set(0, type="OnDelete"), ""),
        (stateful_set(0, type="RollingUpdate", rollingUpdate={"partition": 1}), "rolls out"),
        (stateful_set(2, type="RollingUpdate", rollingUpdate={"partition": 1}), ""),
        (stateful_set(0, type="RollingUpdate", rollingUpdate={"partition": 5}), ""),
    ],
    ids=["under way", "nothing happens by itself", "up to a partition", "done up to that", "nothing is below it"],
)
def test_a_stateful_set_that_is_updated_holds_moves_while_its_controller_is_at_it(obj: Raw, word: str) -> None:
    held = owner("StatefulSet", obj, None, OwnerPods()).held
    assert word in held
    assert bool(word) == bool(held)


def test_room_is_what_virtual_nodes_tell() -> None:
    def node(**free: str) -> Raw:
        annotations = {"multicluster/free": str(free).replace("'", '"')} if free else {}
        return {"metadata": {"name": "us", "annotations": annotations}, "spec": {}}

    def found(*nodes: Raw, taken: int = 0, **proxy: Any) -> str:
        packings = [Packing(each, None) for each in nodes]
        wanted = PodTemplate("default", proxy, {}, {"cpu": 10**9, "pods": 10**9})
        for _ in range(taken):
            assert packings[0].take(replace(wanted, requests={"pods": 10**9}))
        return room(wanted, packings)

    assert found() == "there is no other target that it may go to"
    assert found(node()) == ""
    assert found(node(cpu="2", pods="3")) == ""
    assert found(node(cpu="500m", pods="3")) == "us: not enough cpu"
    assert found(node(cpu="500m", pods="3"), node(cpu="2", pods="3")) == ""
    assert found(node(cpu="2", pods="3"), taken=3) == "us: not enough pods"
    assert found(node(cpu="2", pods="3"), taken=2) == ""
    assert found({**node(), "spec": {"unschedulable": True}}) == "us: cordoned"
    tainted = {**node(), "spec": {"taints": [{"key": "drain", "effect": "NoSchedule"}]}}
    assert found(tainted) == "us: taint drain"
    assert found(tainted, tolerations=[{"key": "drain", "operator": "Exists"}]) == ""
    here = {"metadata": {"name": "us", "labels": {"zone": "a"}}, "spec": {}}
    assert found(here, nodeSelector={"zone": "a"}) == ""
    assert found(here, nodeSelector={"zone": "b"}) == "us: no match of its node selector or affinity"


def test_pods_that_are_not_where_they_should_be_are_counted_by_what_they_say() -> None:
    told_before = replace(O, uid="p", name="web-p", told="NoRoom: of before")
    pods = [A, O, told_before, N]
    assert reasons(pods, decide(replace(SURGE, held="it rolls out"), pods).actions) == {"Held": 2}
    assert reasons([A, O], decide(SURGE, [A, O]).actions) == {"Moving": 1}
    assert reasons([A, told_before], []) == {"NoRoom": 1}


def test_how_long_a_fence_takes_is_told_in_steps() -> None:
    for seconds, shown in ((95.2, "100 s"), (90.0, "90 s"), (0.5, "10 s")):
        plan = decide(EVICT, (Pod("db-0", "x", cause="Lost", answers=False, fence=seconds), Pod("db-1", "y")))
        (said,) = plan.actions
        assert isinstance(said, Tell)
        assert said.reason == "IdentityMayRun"
        assert said.message.endswith(f"its fence will have stopped it in {shown}")
        assert plan.waits
