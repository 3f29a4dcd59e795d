"""Content of an AddOnPlacementScore, and the time of its next write."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.conditions import find_condition, timestamp
from agent.model.addonscore import Statement, Writing, decide, scores_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
VALIDITY = 900.0
Raw = dict[str, Any]


def said(writing: Writing, status: Raw) -> Raw:
    """Return the status after a merge patch."""
    return {key: value for key, value in {**status, **(writing.patch or {})}.items() if value is not None}


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


TWO = Statement({"mem": 3, "cpu": -7}, VALIDITY)
FIRST = said(decide(TWO, {}, NOW), {})


def test_the_first_time_all_of_it_is_written() -> None:
    assert decide(TWO, {}, NOW).again == pytest.approx(600)
    assert FIRST["scores"] == [{"name": "cpu", "value": -7}, {"name": "mem", "value": 3}]
    assert FIRST["validUntil"] == timestamp(after(900))
    condition = find_condition(FIRST["conditions"], "AddOnPlacementScoreUpdated")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "Updated")
    assert scores_of(FIRST) == TWO.scores


def test_what_has_not_moved_is_renewed_when_a_third_of_its_validity_is_left() -> None:
    early = decide(TWO, FIRST, after(599))
    assert (early.patch, early.again) == (None, pytest.approx(1))
    late = decide(TWO, FIRST, after(600))
    assert said(late, FIRST)["validUntil"] == timestamp(after(1500))
    assert late.again == pytest.approx(600)


def test_an_idle_hour_has_six_renewals() -> None:
    status, writes, now = FIRST, 0, 0.0
    while now < 3600:
        writing = decide(TWO, status, after(now))
        writes += writing.patch is not None
        status = said(writing, status)
        assert writing.again is not None
        now += writing.again
    assert writes == 5, "and the one that was before"


@pytest.mark.parametrize(
    "scores", [{"mem": 4, "cpu": -7}, {"mem": 3}, {"mem": 3, "cpu": -7, "gpu": 0}, {"mem": 3, "other": -7}]
)
def test_a_score_that_moved_came_or_went_is_written_at_once(scores: dict[str, int]) -> None:
    writing = decide(Statement(scores, VALIDITY), FIRST, after(1))
    assert scores_of(said(writing, FIRST)) == scores


LOST = Statement({}, VALIDITY, "False", "TargetLost", "no route to host")


def test_of_a_lost_target_there_are_no_scores_and_the_condition_says_why_once() -> None:
    writing = decide(LOST, FIRST, after(1))
    status = said(writing, FIRST)
    assert (status["scores"], "validUntil" in status, writing.again) == ([], False, None)
    condition = find_condition(status["conditions"], "AddOnPlacementScoreUpdated")
    assert condition is not None
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "TargetLost",
        "no route to host",
    )
    assert decide(LOST, status, after(100_000)) == Writing(None, None)


def test_one_that_is_back_has_scores_again() -> None:
    lost = said(decide(LOST, FIRST, after(1)), FIRST)
    back = said(decide(TWO, lost, after(2)), lost)
    assert (scores_of(back), back["validUntil"]) == (TWO.scores, timestamp(after(902)))


@pytest.mark.parametrize("until", [None, "2030-01-01T00:00:00Z", "tomorrow", "2026-01-01T12:00:00"])
def test_what_somebody_else_has_written_into_it_is_put_right(until: str | None) -> None:
    status = {**FIRST, "validUntil": until}
    assert said(decide(TWO, status, after(1)), status)["validUntil"] == timestamp(after(901))


def test_conditions_of_others_stay() -> None:
    status = {**FIRST, "conditions": [{"type": "Other", "status": "True"}, *FIRST["conditions"]]}
    assert decide(TWO, status, after(1)).patch is None
    assert [each["type"] for each in said(decide(LOST, status, NOW), status)["conditions"]] == [
        "Other",
        "AddOnPlacementScoreUpdated",
    ]


def aged(age: float) -> Statement:
    return Statement(TWO.scores, 90.0, age=age)


def test_what_was_found_out_some_time_ago_counts_for_no_longer_than_it_may() -> None:
    first = said(decide(aged(0), {}, NOW), {})
    # No new scores for this long: the object is not renewed.
    for seconds in (60, 75, 89):
        writing = decide(aged(seconds), first, after(seconds))
        assert writing.patch is None
        assert writing.again == pytest.approx(90 - seconds)
    assert said(decide(aged(10), first, after(70)), first)["validUntil"] == timestamp(after(150))


def test_to_write_something_else_makes_old_scores_count_for_no_longer() -> None:
    first = said(decide(aged(0), {}, NOW), {})
    failing = Statement(TWO.scores, 90.0, "False", "QueryFailed", "HTTP status 503", age=50)
    status = said(decide(failing, first, after(50)), first)
    assert status["validUntil"] == timestamp(after(90))
    unknown = Statement(TWO.scores, 90.0, age=float("inf"), message="restarted")
    assert said(decide(unknown, first, after(50)), first)["validUntil"] == timestamp(after(90))
