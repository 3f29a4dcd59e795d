from datetime import UTC, datetime, timedelta

import pytest

from agent.base import leaderless_intervals
from agent.base.clock import micro_stamp
from agent.base.leaderless_intervals import Absence

NOW = datetime(2026, 11, 23, 12, 0, 0, 250_000, tzinfo=UTC)
SECONDS = 12.0


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def noted(seconds: float, known: tuple[Absence, ...] = ()) -> tuple[Absence, ...]:
    """Return the intervals recorded at the takeover of a 12 s lease that was renewed this many seconds ago."""
    return leaderless_intervals.noted(known, micro_stamp(ago(seconds)), SECONDS, NOW)


@pytest.mark.parametrize("seconds", [0.0, 2.0, 13.0, 23.9, -600.0])
def test_that_a_leader_died_and_was_followed_says_nothing(seconds: float) -> None:
    assert noted(seconds) == ()


def test_an_absence_begins_when_the_leader_that_is_known_could_lead_no_more() -> None:
    assert noted(600) == (Absence(ago(588), NOW),)


@pytest.mark.parametrize("renewed", ["", "yesterday", "2026-11-23T12:00:00"])
def test_a_lease_that_does_not_say_when_it_was_renewed_says_nothing(renewed: str) -> None:
    assert leaderless_intervals.noted((), renewed, SECONDS, NOW) == ()


def test_what_is_written_is_read_and_what_nobody_can_read_is_none() -> None:
    known = noted(600, noted(6000))
    assert len(known) == 2
    assert leaderless_intervals.read(leaderless_intervals.write(known)) == known
    for text in ("", "{", "[1]", '[["a", "b"]]', '[["2026-11-23T12:00:00Z"]]'):
        assert leaderless_intervals.read(text) == ()


def test_only_the_last_are_kept() -> None:
    known: tuple[Absence, ...] = ()
    for _ in range(50):
        known = noted(600, known)
    assert len(known) == 20


def test_of_absences_the_latest_counts_that_something_was_made_in() -> None:
    one, two = Absence(ago(5000), ago(4000)), Absence(ago(300), ago(200))
    assert leaderless_intervals.last_of((one, two), [ago(4500), ago(250)]) == two
    assert leaderless_intervals.last_of((one, two), [ago(4500), ago(1000)]) == one
    assert leaderless_intervals.last_of((one, two), [ago(1000), ago(5001), NOW]) is None
    assert leaderless_intervals.last_of((), [ago(10)]) is None
    assert one.token == "2026-11-23T10:36:40Z"
