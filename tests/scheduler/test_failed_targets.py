from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.base.clock import stamp
from agent.kube.errors import one_line
from agent.scheduler.failed_targets import (
    ALL_BYTES,
    LONGEST_DWELL,
    LONGEST_RETRY,
    NOT_KEPT,
    REASON_CHARACTERS,
    FailedTarget,
    bytes_left,
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


def after(count: int, words: str, limit: int = ALL_BYTES) -> str:
    """Return the annotation of a pod that this many targets refused, one per second."""
    known = {node(number): FailedTarget(words, stamp(moment(number)), 1, True) for number in range(count - 1)}
    return with_failed_target(known, node(count - 1), words, moment(count - 1), refused=True, limit=limit)


def node(number: int) -> str:
    return f"admiralty-ns-target-{number}"


def moment(number: int) -> datetime:
    return NOW + timedelta(seconds=number)


NO_NODE = "0/12 nodes are available: 3 node(s) had untolerated taint, 9 Insufficient cpu. " * 4


def test_a_pod_that_thousands_of_targets_refused_remembers_each_and_the_latest_with_reasons() -> None:
    text = after(4000, NO_NODE)
    assert len(text.encode()) <= ALL_BYTES
    known = failed_targets_of(pod(text))
    assert len(known) == 4000
    assert known[node(3999)] == FailedTarget(one_line(NO_NODE, REASON_CHARACTERS), stamp(moment(3999)), 1, True)
    assert known[node(3700)] == FailedTarget(NOT_KEPT, stamp(moment(3700)), 1, True)
    assert known[node(0)] == FailedTarget(NOT_KEPT)
    again = failed_targets_of(pod(with_failed_target(known, node(0), "full", moment(4000))))
    assert again[node(0)] == FailedTarget("full", stamp(moment(4000)), 2)
    assert len(again) == 4000


def test_words_of_a_hostile_target_are_cut() -> None:
    text = after(1, "\u2028" * 1_000_000)
    assert len(text.encode()) < 2048


@pytest.mark.parametrize("limit", [0, 100, 3000])
def test_a_pod_with_large_annotations_of_its_own_keeps_what_fits(limit: int) -> None:
    text = after(60, NO_NODE, limit)
    assert len(text.encode()) <= max(limit, len("{}"))
    assert text == "{}" or node(59) in failed_targets_of(pod(text))


def test_what_is_left_beside_other_annotations() -> None:
    manifest = {names.ANNOTATION_MANIFEST: "x" * 200_000}
    assert bytes_left({**manifest, names.ANNOTATION_ATTEMPTS: "y" * 50_000}) == bytes_left(manifest) < 56 << 10
    assert bytes_left({"a": "x" * 300_000}) == 0
    assert bytes_left(None) > ALL_BYTES
