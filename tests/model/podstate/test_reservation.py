from datetime import UTC, datetime, timedelta

import pytest

from agent.api import names
from agent.model.podstate import GRACE, HoldMark, hold_mark, left_behind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HELD = {names.ANNOTATION_IS_RESERVED: "true", names.ANNOTATION_HOLD: "h 2026-01-01T12:00:00Z"}


def test_a_mark_is_read_as_it_is_written() -> None:
    mark = HoldMark("h", NOON + timedelta(microseconds=5))
    assert str(mark) == "h 2026-01-01T12:00:00Z"
    assert hold_mark({names.ANNOTATION_HOLD: str(mark)}) == HoldMark("h", NOON)
    assert hold_mark({}) is None


@pytest.mark.parametrize("text", ["h", "h ", "h soon", "h 2026-01-01T12:00:00"])
def test_an_end_that_cannot_be_read_is_none(text: str) -> None:
    assert hold_mark({names.ANNOTATION_HOLD: text}) == HoldMark("h")


def test_a_reservation_is_left_behind_some_time_after_its_end() -> None:
    assert left_behind(HELD) == NOON + GRACE


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {names.ANNOTATION_IS_RESERVED: "true"},
        {names.ANNOTATION_HOLD: HELD[names.ANNOTATION_HOLD]},
        HELD | {names.ANNOTATION_IS_ALLOWED: "true"},
        HELD | {names.ANNOTATION_HOLD: "h"},
    ],
    ids=["there is none", "it is somebody else's", "it was cleared", "it is allowed", "its end is not known"],
)
def test_other_reservations_are_never_left_behind(annotations: dict[str, str]) -> None:
    assert left_behind(annotations) is None
