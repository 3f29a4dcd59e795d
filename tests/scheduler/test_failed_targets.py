from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.scheduler.failed_targets import (
    LONGEST_DWELL,
    LONGEST_RETRY,
    FailedTarget,
    failed_targets_of,
    with_failed_target,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DWELL = timedelta(seconds=30)


def pod(annotation: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {names.ANNOTATION_ATTEMPTS: annotation} if annotation else {}}}


def test_an_attempt_is_remembered_with_reason_and_time_and_counted() -> None:
    once = failed_targets_of(pod(with_failed_target({}, "admiralty-eu", "full", NOW)))
    assert once == {"admiralty-eu": FailedTarget("full", "2026-03-01T12:00:00Z")}
    twice = failed_targets_of(pod(with_failed_target(once, "admiralty-eu", "still full", NOW + DWELL)))
    assert twice["admiralty-eu"] == FailedTarget("still full", "2026-03-01T12:00:30Z", 2)


def test_what_an_older_agent_wrote_is_read_without_a_time() -> None:
    assert failed_targets_of(pod('{"admiralty-eu": "full"}')) == {"admiralty-eu": FailedTarget("full")}
    assert FailedTarget("full").may_repeat_at(DWELL) is None


@pytest.mark.parametrize("text", ["", "no", "[]", "3", '{"a": 3}'])
def test_what_cannot_be_read_is_forgotten(text: str) -> None:
    assert failed_targets_of(pod(text)) == {}


@given(st.integers(1, 1000), st.integers(1, 3600))
def test_the_pause_doubles_and_has_a_limit(count: int, seconds: int) -> None:
    dwell = timedelta(seconds=seconds)
    at = "2026-03-01T12:00:00Z"
    due, later = (FailedTarget("full", at, number).may_repeat_at(dwell) for number in (count, count + 1))
    assert due is not None
    assert later is not None
    assert NOW + dwell <= due <= later <= NOW + max(dwell, LONGEST_DWELL)


def test_a_target_that_took_nothing_may_be_asked_again_soon_and_by_who_waits_elsewhere_after_a_dwell() -> None:
    known: dict[str, FailedTarget] = {}
    pauses = []
    for _ in range(7):
        known = failed_targets_of(pod(with_failed_target(known, "admiralty-eu", "dead webhook", NOW, refused=True)))
        attempt = known["admiralty-eu"]
        assert attempt.may_repeat_at(DWELL) == NOW + DWELL
        due = attempt.may_retry_at()
        assert due is not None
        pauses.append((due - NOW).total_seconds())
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert pauses[-1] == LONGEST_RETRY.total_seconds()


def test_a_target_that_took_the_pod_and_had_no_place_is_not_held_back_by_that() -> None:
    assert FailedTarget("full", "2026-03-01T12:00:00Z").may_retry_at() is None


def test_what_goes_wrong_in_another_way_is_counted_anew() -> None:
    known = failed_targets_of(pod(with_failed_target({}, "admiralty-eu", "dead webhook", NOW, refused=True)))
    known = failed_targets_of(pod(with_failed_target(known, "admiralty-eu", "full", NOW)))
    assert known["admiralty-eu"] == FailedTarget("full", "2026-03-01T12:00:00Z")


def test_an_agent_before_this_one_reads_what_it_knows() -> None:
    text = with_failed_target({}, "admiralty-eu", "dead webhook", NOW, refused=True)
    assert text == '{"admiralty-eu":{"reason":"dead webhook","at":"2026-03-01T12:00:00Z","untaken":true}}'
