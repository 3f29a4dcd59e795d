from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.base.clock import FixedClock, SystemClock, micro_stamp, parse, stamp

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def test_a_stamp_has_whole_seconds_in_utc_as_metav1_time_does() -> None:
    assert stamp(MOMENT.astimezone(timezone(timedelta(hours=-8)))) == "2026-03-01T12:30:15Z"


def test_a_micro_stamp_has_six_digits_as_metav1_microtime_does() -> None:
    assert micro_stamp(MOMENT) == "2026-03-01T12:30:15.123456Z"
    assert micro_stamp(MOMENT.replace(microsecond=0)) == "2026-03-01T12:30:15.000000Z"


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_what_is_written_is_read_back(moment: datetime) -> None:
    assert parse(micro_stamp(moment)) == moment
    assert parse(stamp(moment)) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    "text",
    ["2024-11-12T06:38:22-08:00", "2024-11-12T14:38:22Z", "2024-11-12T14:38:22.000000000Z"],
    ids=["with a local offset", "in utc", "with the nanoseconds that Go writes"],
)
def test_every_form_that_go_writes_is_read(text: str) -> None:
    assert parse(text) == datetime(2024, 11, 12, 14, 38, 22, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2024-11-12", "2024-11-12T14:38:22"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_a_fixed_clock_stands_still_until_it_is_moved() -> None:
    clock = FixedClock(MOMENT)
    assert clock.now() == clock.now() == MOMENT
    clock.advance(90)
    assert clock.now() - MOMENT == timedelta(seconds=90)


def test_the_system_clock_knows_its_time_zone() -> None:
    assert SystemClock().now().tzinfo is UTC
