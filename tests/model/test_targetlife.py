"""States of an unreachable target, for all orders of events."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.model.targetlife import LONGEST_PAUSE_SECONDS, LifeState, Sight, TargetLife, Terms, is_held, resumed, step

TERMS = Terms(failover_after=300, stable_after=60)
NEVER = Terms(failover_after=math.inf)
SILENT, ANSWERS, READY, UNKNOWN = Sight.SILENT, Sight.ANSWERS, Sight.READY, Sight.UNKNOWN


def lived(*looks: tuple[float, Sight], terms: Terms = TERMS) -> TargetLife:
    life = TargetLife()
    for now, sight in looks:
        life = step(life, sight, terms, now)
    return life


@pytest.mark.parametrize(
    ("looks", "state"),
    [
        pytest.param([], "Connected", id="nothing is known against it"),
        pytest.param([(0, UNKNOWN), (900, UNKNOWN)], "Connected", id="without a connection nothing follows"),
        pytest.param([(0, READY), (5, SILENT)], "Unreachable", id="it does not answer any more"),
        pytest.param([(5, SILENT), (304, SILENT)], "Unreachable", id="not for long enough"),
        pytest.param([(5, SILENT), (305, SILENT)], "Lost", id="for as long as failover-after says"),
        pytest.param([(5, SILENT), (9, READY)], "Connected", id="back from a first short outage"),
        pytest.param([(5, SILENT), (9, ANSWERS)], "Returning", id="it answers, but cannot be believed yet"),
        pytest.param([(5, SILENT), (9, ANSWERS), (12, READY)], "Connected", id="now it can"),
        pytest.param(
            [(5, SILENT), (9, READY), (300, SILENT), (305, SILENT)], "Unreachable", id="one answer in between"
        ),
        pytest.param([(5, SILENT), (305, SILENT), (310, READY)], "Returning", id="back after it was lost"),
        pytest.param([(5, SILENT), (305, SILENT), (310, READY), (369, READY)], "Returning", id="not for long"),
        pytest.param([(5, SILENT), (305, SILENT), (310, READY), (370, READY)], "Connected", id="for long enough"),
        pytest.param(
            [(5, SILENT), (305, SILENT), (310, READY), (350, ANSWERS), (360, READY), (419, READY)],
            "Returning",
            id="it has to be ready all the time",
        ),
        pytest.param(
            [(5, SILENT), (9, READY), (20, SILENT), (25, READY)], "Returning", id="it has come and gone twice"
        ),
        pytest.param(
            [(5, SILENT), (9, READY), (20, SILENT), (25, READY), (144, READY)], "Returning", id="twice as long"
        ),
        pytest.param(
            [(5, SILENT), (9, READY), (20, SILENT), (25, READY), (145, READY)], "Connected", id="that is over"
        ),
        pytest.param([(5, SILENT), (9, READY), (3700, SILENT), (3705, READY)], "Connected", id="twice, an hour apart"),
        pytest.param([(5, SILENT), (305, SILENT), (310, READY), (320, SILENT)], "Unreachable", id="gone again"),
        pytest.param([(5, SILENT), (305, SILENT), (320, UNKNOWN)], "Lost", id="what is known stays where nothing is"),
    ],
)
def test_what_becomes_of_a_target(looks: list[tuple[float, Sight]], state: str) -> None:
    assert lived(*looks).state == state


def test_seconds_in_which_failover_was_held_do_not_count() -> None:
    life = lived((5, SILENT), (400, SILENT)).spared(15, 400)
    assert step(life, SILENT, TERMS, 689).state is LifeState.UNREACHABLE
    assert step(life, SILENT, TERMS, 690).state is LifeState.LOST
    # A target that fell silent while it was held gets its full time.
    assert lived((200, SILENT)).spared(15, 400).silent_for(400) == 0
    assert lived((5, READY)).spared(15, 400) == lived((5, READY))


def test_one_that_never_fails_over_is_never_lost() -> None:
    assert lived((5, SILENT), (90_000, SILENT), terms=NEVER).state is LifeState.UNREACHABLE


def test_another_term_counts_at_once() -> None:
    life = lived((5, SILENT), (305, SILENT))
    assert step(life, SILENT, NEVER, 310).state is LifeState.UNREACHABLE
    assert step(life, SILENT, Terms(failover_after=10), 310).state is LifeState.LOST


@pytest.mark.parametrize(
    ("state", "sight", "expected"),
    [
        ("Connected", SILENT, "Unreachable"),
        ("Lost", UNKNOWN, "Unreachable"),
        ("Lost", SILENT, "Lost"),
        ("Lost", READY, "Returning"),
        ("Returning", UNKNOWN, "Returning"),
        ("Returning", SILENT, "Unreachable"),
    ],
)
def test_another_leader_sees_for_itself(state: str, sight: Sight, expected: str) -> None:
    assert step(resumed(LifeState(state), (100.0, 50.0), 0), sight, TERMS, 0).state == expected


def test_another_leader_counts_no_outage_twice() -> None:
    assert step(resumed(LifeState.LOST, (100.0, 4000.0), 0), SILENT, TERMS, 0).outages == (-100.0,)


@pytest.mark.parametrize(
    ("away", "total", "held"),
    [
        (0, 0, False),
        (0, 2, False),
        (1, 1, True),
        (1, 2, False),
        (2, 2, True),
        (1, 3, False),
        (2, 3, True),
        (2, 4, False),
    ],
)
def test_when_most_are_away_the_fault_is_ours(away: int, total: int, held: bool) -> None:
    assert is_held(away, total) is held


PAST = st.lists(st.tuples(st.floats(0, 400), st.sampled_from(Sight)), max_size=30)


def history(steps: list[tuple[float, Sight]]) -> list[tuple[float, Sight]]:
    now, looks = 0.0, []
    for pause, sight in steps:
        now += pause
        looks.append((now, sight))
    return looks


@given(PAST)
def test_lost_is_only_what_has_not_answered_for_its_whole_term(steps: list[tuple[float, Sight]]) -> None:
    life, silent_since = TargetLife(), None
    for now, sight in history(steps):
        life = step(life, sight, TERMS, now)
        if sight is SILENT:
            silent_since = now if silent_since is None else silent_since
            assert (life.state is LifeState.LOST) == (now - silent_since >= TERMS.failover_after)
        elif sight is not UNKNOWN:
            silent_since = None
            assert life.state in (LifeState.CONNECTED, LifeState.RETURNING)


@given(PAST, st.floats(0, 5000))
def test_looking_twice_at_once_changes_nothing(steps: list[tuple[float, Sight]], later: float) -> None:
    life = lived(*history(steps))
    now = sum(pause for pause, _ in steps) + later
    for sight in Sight:
        once = step(life, sight, TERMS, now)
        assert step(once, sight, TERMS, now) == once


@given(PAST)
def test_one_that_stays_ready_is_connected_in_the_end(steps: list[tuple[float, Sight]]) -> None:
    now = sum(pause for pause, _ in steps)
    life = lived(*history(steps), (now, READY))
    assert life.pause(TERMS) <= LONGEST_PAUSE_SECONDS
    assert step(life, READY, TERMS, now + LONGEST_PAUSE_SECONDS).state is LifeState.CONNECTED


@example([(0.0, SILENT), (1.0, READY), (3570.0, SILENT), (1.0, READY)])
@given(PAST)
def test_looking_when_it_is_due_is_soon_enough(steps: list[tuple[float, Sight]]) -> None:
    looks = history(steps)
    life = lived(*looks)
    if not looks or looks[-1][1] in (UNKNOWN, ANSWERS):
        return
    now, sight = looks[-1]
    due = life.due(TERMS, now)
    if due < math.inf:
        assert step(life, sight, TERMS, now + due / 2).state is life.state
        assert step(life, sight, TERMS, now + due + 0.001) != life
