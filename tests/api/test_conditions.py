from datetime import UTC, datetime, timedelta, timezone

import pytest

from agent.api.conditions import find_condition, set_condition, timestamp, with_changes

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def test_times_are_written_in_utc_with_whole_seconds() -> None:
    local = datetime(2026, 1, 1, 13, 0, 0, 999999, tzinfo=timezone(timedelta(hours=1)))
    assert timestamp(local) == "2026-01-01T12:00:00Z"


def test_a_first_condition_transitions_now() -> None:
    assert set_condition(None, "Ready", "True", "Fine", "all is well", NOON, generation=3) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Fine",
            "message": "all is well",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-01-01T12:00:00Z",
        }
    ]


def test_the_transition_time_stays_while_only_reason_and_message_change() -> None:
    first = set_condition(None, "Ready", "False", "NoSecret", "m", NOON)
    second = set_condition(first, "Ready", "False", "BadSecret", "n", LATER)
    assert second[0]["reason"] == "BadSecret"
    assert second[0]["lastTransitionTime"] == timestamp(NOON)


def test_the_transition_time_moves_with_the_status() -> None:
    first = set_condition(None, "Ready", "False", "NoSecret", "m", NOON)
    assert set_condition(first, "Ready", "True", "Fine", "", LATER)[0]["lastTransitionTime"] == timestamp(LATER)


def test_an_equal_condition_changes_nothing() -> None:
    first = set_condition(None, "Ready", "True", "Fine", "m", NOON, 1)
    assert set_condition(first, "Ready", "True", "Fine", "m", LATER, 1) == first


def test_other_conditions_keep_their_place_and_the_input_is_not_changed() -> None:
    before = [{"type": "A", "status": "True"}, {"type": "Ready", "status": "True"}, {"type": "B", "status": "False"}]
    copy = [dict(item) for item in before]
    after = set_condition(before, "Ready", "Unknown", "R", "m", NOON)
    assert [item["type"] for item in after] == ["A", "Ready", "B"]
    assert before == copy


def test_a_condition_that_was_there_twice_is_there_once() -> None:
    twice = [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "False"}]
    assert len(set_condition(twice, "Ready", "True", "R", "m", NOON)) == 1


def test_fields_of_others_such_as_heartbeats_survive() -> None:
    before = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "x", "lastTransitionTime": "y"}]
    after = set_condition(before, "Ready", "True", "R", "m", NOON)
    assert after[0]["lastHeartbeatTime"] == "x"
    assert after[0]["lastTransitionTime"] == "y"


def test_find_gives_the_condition_of_a_type_or_nothing() -> None:
    conditions = [{"type": "A"}, {"type": "B"}]
    assert find_condition(conditions, "B") is conditions[1]
    assert find_condition(conditions, "C") is None
    assert find_condition(None, "C") is None


def condition(type: str, status: str = "True") -> dict[str, str]:
    return {"type": type, "status": status}


@pytest.mark.parametrize(
    ("current", "before", "after", "result"),
    [
        ([], [], ["A"], ["A"]),
        (["A"], [], ["B"], ["A", "B"]),
        (["A", "B"], ["A", "B"], ["A", "-B"], ["A", "-B"]),
        (["A", "-B"], ["A", "B"], ["-A", "B"], ["-A", "-B"]),
        (["A", "-B", "C"], ["A", "B"], ["A", "-B"], ["A", "-B", "C"]),
        (["A", "B", "C"], ["A", "B"], ["B"], ["B", "C"]),
        (["B"], ["A", "B"], ["A", "B", "C"], ["B", "C"]),
        (["-B"], ["B"], ["?B"], ["?B"]),
        ([], ["B"], ["-B"], ["-B"]),
        (["A", "A"], ["A", "A"], ["-A"], ["-A"]),
    ],
)
def test_conditions_that_changed_are_carried_over_and_those_of_others_stay(
    current: list[str], before: list[str], after: list[str], result: list[str]
) -> None:
    def made(words: list[str]) -> list[dict[str, str]]:
        status = {"-": "False", "?": "Unknown"}
        return [condition(word.lstrip("-?"), status.get(word[0], "True")) for word in words]

    assert with_changes(made(current), made(before), made(after)) == made(result)
