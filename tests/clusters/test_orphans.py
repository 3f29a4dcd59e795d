from datetime import UTC, datetime, timedelta

import pytest

from agent.base.leaderless_intervals import Absence
from agent.clusters.stores.orphans import Census, hold

NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
ABSENCE = Absence(NOW - timedelta(minutes=30), NOW - timedelta(minutes=1))
FORGOTTEN, BEFORE, SINCE = (NOW - timedelta(minutes=minutes) for minutes in (10, 60, 0))


def census(orphans: int, of: int, made: datetime = FORGOTTEN) -> Census:
    return Census(of, (made,) * orphans)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(census(11, 1000), True, id="more than ten are many"),
        pytest.param(census(2, 9), True, id="more than a fifth are many"),
        pytest.param(census(1, 1), True, id="all are many, also where it is one"),
        pytest.param(census(10, 50), False, id="ten, and a fifth, are few"),
        pytest.param(census(0, 0), False, id="none"),
    ],
)
def test_many_orphans_that_were_made_while_nobody_led_are_held(found: Census, want: bool) -> None:
    assert (hold(found, [ABSENCE], "") is not None) is want


def test_what_is_held_says_how_many_and_what_a_person_has_to_write() -> None:
    held = hold(census(30, 40), [ABSENCE], "")
    assert held == (30, 40, "2026-11-23T11:30:00Z")


@pytest.mark.parametrize("made", [BEFORE, SINCE])
def test_orphans_that_this_cluster_cannot_have_forgotten_go_however_many(made: datetime) -> None:
    assert hold(census(30, 40, made), [ABSENCE], "") is None


def test_one_that_was_forgotten_holds_the_others() -> None:
    made = (*(BEFORE for _ in range(30)), FORGOTTEN)
    assert hold(Census(40, made), [ABSENCE], "") is not None


def test_only_the_very_moment_that_is_told_releases() -> None:
    found = census(30, 40)
    held = hold(found, [ABSENCE], "true")
    assert held is not None
    assert hold(found, [ABSENCE], held.token) is None
    another = Absence(NOW - timedelta(minutes=15), NOW - timedelta(minutes=2))
    again = hold(found, [ABSENCE, another], held.token)
    assert again is not None, "what was written once does not release what is forgotten next"
    assert again.token == another.token
