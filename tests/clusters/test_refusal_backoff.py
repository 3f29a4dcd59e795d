from agent.clusters.health.refusal_backoff import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    ROW,
    TURN_SECONDS,
    Refusal,
    RefusalBackoff,
)
from agent.clusters.health.refusal_backoff import concerns_all as concerns_all_pods
from agent.kube.errors import StatusError, from_status


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shut(clock: Clock, namespace: str = "a") -> RefusalBackoff:
    """Return the backoff of a target that has refused enough pods."""
    found = RefusalBackoff(clock)
    for number in range(ROW):
        found.refused(namespace, f"u{number}", "ServerError", "full")
    return found


def test_pods_are_kept_away_once_several_in_a_row_were_refused() -> None:
    clock = Clock()
    found = RefusalBackoff(clock)
    for number in range(ROW - 1):
        found.refused("a", f"u{number}", "ServerError", "full")
        assert found.refuses("a") == ""
        assert found.admits("a", "another", before=False)
    found.refused("a", "last", "ServerError", "full")
    assert found.refuses("a") == "full"
    assert not found.admits("a", "another", before=False)
    assert found.refusal == Refusal("ServerError", "a", "full")


def test_one_pod_alone_shuts_no_target_however_often_it_is_refused() -> None:
    found = RefusalBackoff(Clock())
    for _ in range(10 * ROW):
        found.refused("a", "same", "ServerError", "full")
    assert found.refuses("a") == ""


def test_a_pod_that_is_taken_begins_a_new_row() -> None:
    found = RefusalBackoff(Clock())
    for number in range(10):
        found.refused("a", f"u{number}", "ServerError", "full")
        found.accepted("a")
    assert found.refuses("a") == ""
    assert found.refusal is None


def test_another_namespace_is_not_concerned() -> None:
    found = shut(Clock())
    assert found.refuses("b") == ""
    found.accepted("b")
    assert found.refuses("a") == "full"


def test_after_a_pause_one_pod_that_was_refused_before_and_one_that_was_not_have_a_turn() -> None:
    clock = Clock()
    found = shut(clock)
    clock.now += FIRST_PAUSE_SECONDS - 0.1
    assert not found.admits("a", "new", before=False)
    clock.now += 0.1
    assert found.next_turn == 0.0
    assert found.admits("a", "new", before=False)
    assert found.admits("a", "u0", before=True)
    assert found.admits("a", "new", before=False), "it keeps its turn"
    assert not found.admits("a", "newer", before=False)
    assert not found.admits("a", "u1", before=True)


def test_a_turn_that_is_not_used_is_another_s() -> None:
    clock = Clock()
    found = shut(clock)
    clock.now += FIRST_PAUSE_SECONDS
    assert found.admits("a", "one", before=False)
    found.leave_turn("a", "one")
    assert found.admits("a", "two", before=False)
    clock.now += TURN_SECONDS
    assert found.admits("a", "three", before=False)


def test_pauses_double_as_those_whose_turn_it_is_are_refused_and_have_a_limit() -> None:
    clock = Clock()
    found = shut(clock)
    pause = FIRST_PAUSE_SECONDS
    for number in range(6):
        clock.now += pause
        assert found.admits("a", f"n{number}", before=False)
        found.refused("a", "somebody else", "ServerError", "full")
        assert found.next_turn == 0.0, "only whose turn it is makes it rest"
        found.refused("a", f"n{number}", "ServerError", "in other words")
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        assert found.next_turn == pause
    assert pause == LONGEST_PAUSE_SECONDS
    assert found.refuses("a") == "full", "what waiting pods are told stays"


def test_a_pod_that_is_taken_lets_all_others_in() -> None:
    clock = Clock()
    found = shut(clock)
    told: list[int] = []
    found.changed = lambda: told.append(found.epoch)
    found.accepted("a")
    assert (found.refuses("a"), found.refusal, found.next_turn) == ("", None, None)
    assert found.admits("a", "anybody", before=True)
    found.accepted("a")
    assert told == [2]


def test_what_is_in_a_pod_concerns_no_other() -> None:
    concerned = [code for code in (400, 401, 403, 404, 413, 422, 429, 500, 503, 504) if concerns_all_pods(_error(code))]
    assert concerned == [401, 404, 429, 500, 503, 504]


def _error(code: int) -> StatusError:
    return from_status(b"", code)
