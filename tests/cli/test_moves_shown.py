"""`flotilla moves`: rows about moving pods, and the progress of a move; without clusters."""

from typing import Any

import pytest

from agent.cli.moving.lines import cause_told, changes, move_lines, move_told, moves_table, replaces_told
from agent.cli.moving.progress import Pod as Moving
from agent.cli.moving.progress import progress
from agent.cli.moving.world import Home, homes_of
from agent.kube.store import Object
from agent.model.targetchoice import TargetChoice, combine, level
from agent.moves.mover.plan import CAUSES
from tests.cli.moving import EU, MOVED, NOW, SINCE, TITLES, US, pod, target

Raw = dict[str, Any]


# Moves in progress ---------------------------------------------------------------------------------------------------


def test_each_pod_that_moves_is_told_with_its_replacement_and_others_are_not() -> None:
    old = pod("web-1", EU, "Moving", "its target eu is not in it; its replacement is web-n")
    new = pod("web-n", US, controlled=False, replaces="u-web-1", moved=MOVED)
    gone = pod("web-o", "", controlled=False, replaces="u-gone", moved=MOVED)
    stays = pod("job", EU, "Held", f"{CAUSES['Retire']}; it finishes")
    (job, web, left) = move_lines([old, new, gone, stays, pod("well")], TITLES)
    assert (web.pod, web.source, web.to, web.cause, web.phase) == ("web-1", "eu", "us", "Targets", "Moving")
    assert (web.since, web.replacement) == (SINCE, "web-n")
    assert (job.pod, job.to, job.cause, job.phase, job.replacement) == ("job", "", "Retire", "Held", "")
    assert (left.pod, left.source, left.to, left.phase) == ("web-o", "eu", "", "Ending")
    heads, rows = moves_table([web], NOW, everywhere=True)
    assert dict(zip(heads, rows[0], strict=True)) == {
        "NAMESPACE": "default",
        "POD": "web-1",
        "FROM": "eu",
        "TO": "us",
        "CAUSE": "Targets",
        "PHASE": "Moving",
        "SINCE": "60s",
        "MESSAGE": web.message,
    }


def test_the_end_of_a_move_is_told_after_its_replacement_was_adopted() -> None:
    new = pod("web-n", US, moved=MOVED)
    marked = pod("web-1", EU, "Moving", "x", replaced_by="u-web-n")
    assert [(line.phase, line.to) for line in move_lines([marked, new], TITLES)] == [("Moving", "us")]
    ending = pod("web-1", EU, "Moving", "x", replaced_by="u-web-n", going=True)
    assert [(line.phase, line.to) for line in move_lines([ending, new], TITLES)] == [("Ending", "us")]
    assert move_lines([pod("web-1", EU, "Held", "x", phase="Succeeded")], TITLES) == []
    assert move_lines([marked, new], TITLES, "elsewhere") == []


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        *((f"{words}; why", cause) for cause, words in CAUSES.items()),
        ("its target eu is not in multicluster/targets of the pod (us)", "Targets"),
        ("its cluster eu is no longer in Placement x", "Placement"),
        ("it prefers us, which has been there for a while", "FailBack"),
        ("its target does not answer: it is looked at again once it does, or is lost", ""),
        ("", ""),
    ],
)
def test_why_a_pod_moves_is_read_from_what_it_says(message: str, cause: str) -> None:
    assert cause_told(message) == cause


def test_what_changes_is_told_and_what_is_over() -> None:
    (line,) = move_lines([pod("web-1", EU, "NoRoom", "x")], TITLES)
    (later,) = move_lines([pod("web-1", EU, "Moving", "x")], TITLES)
    assert changes([], [line]) == [line]
    assert changes([line], [line]) == []
    assert changes([line], [later]) == [later]
    assert [each.phase for each in changes([line], [])] == ["Done"]


def test_a_pod_is_explained_with_its_move() -> None:
    old = pod("web-1", EU, "NoRoom", "its target eu is not in it")
    new = pod("web-n", "", controlled=False, replaces="u-web-1", moved=MOVED)
    pods = [old, new]
    assert move_told(old, pods, TITLES) == (
        f"NoRoom since {SINCE} (Targets): its target eu is not in it; web-n replaces it in no target yet"
    )
    assert (move_told(new, pods, TITLES), replaces_told(old, pods, TITLES)) == ("", "")
    assert replaces_told(new, pods, TITLES) == f"web-1 in eu (Targets, since {SINCE})"
    assert replaces_told(pod("web-n", US, moved=MOVED), [], TITLES).startswith("a pod that is gone in eu")


# Progress of a move --------------------------------------------------------------------------------------------------


def homes() -> dict[str, Home]:
    return homes_of([target("eu"), target("us")])


CHOICE: TargetChoice | None = combine([level("namespace shop", {"multicluster/targets": "us"})])


def far(*pods: Object, wanted: int = 0, stays: tuple[str, ...] = ()) -> Any:
    listed = [Moving(each, CHOICE) for each in pods]
    return progress(listed, homes(), move_lines(pods, TITLES), wanted, stays)


def test_all_are_there_once_they_are_ready_and_nothing_is_left_over() -> None:
    assert far(pod("a", US), pod("b", US)).complete
    assert not far(pod("a", US), wanted=2).complete
    assert "not Ready" in far(pod("a", US, ready=False)).waiting["u-a"]
    assert far(pod("a", US), pod("b", EU, going=True)).leftovers == 1
    assert far(pod("a", US), pod("n", US, controlled=False, replaces="u-x")).leftovers == 1
    assert far(pod("a", US), pod("b", EU, phase="Succeeded")).complete
    assert far(pod("a", US), pod("b", US, going=True)).complete
    assert str(far()) == "there are no pods that it bears on"
    assert str(far(pod("a", US), pod("b", EU, going=True), wanted=2)) == (
        "1 of 2 pods are where they should be; 1 are still to be made; 1 have still to go, or to be adopted"
    )


def test_who_is_not_there_says_what_it_waits_for() -> None:
    now = far(pod("a", US), pod("b", EU), pod("c", EU, "Misplaced", "others first"), pod("d", ""))
    assert str(now) == "1 of 4 pods are where they should be"
    assert now.waiting == {
        "u-b": "default/b: the agent has not begun to move it",
        "u-c": "default/c: Misplaced: others first",
        "u-d": "default/d: it has no target yet",
    }
    assert now.stuck == {}


def test_a_replacement_that_has_no_room_keeps_its_pod_where_it_is() -> None:
    now = far(pod("a", EU, "NoRoom", "x"), pod("n", "", controlled=False, replaces="u-a"))
    assert (now.leftovers, now.total, len(now.stuck), len(now.waiting)) == (0, 1, 1, 1)


def test_who_may_never_get_there_is_told_apart() -> None:
    now = far(pod("a", EU, "NoRoom", "x"), pod("b", EU), stays=("u-b",))
    assert now.stuck.keys() == {"u-a", "u-b"}
