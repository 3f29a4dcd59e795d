"""Counters computed from rates."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agent.kubelet.counters import LONGEST_GAP, Counters, Sample

START = datetime(2026, 1, 1, tzinfo=UTC)
ONE, OTHER = ("pod", "chaperon", "main"), ("pod", "chaperon", "side")
THERE = {("pod", "chaperon")}


def sample(at: float, nanocores: int = 500_000_000, memory: int = 1) -> Sample:
    return Sample(START + timedelta(seconds=at), 15.0, nanocores, memory)


def test_a_counter_begins_with_the_window_and_grows_by_the_rate_times_the_time() -> None:
    counters = Counters()
    assert counters.take([(ONE, sample(0))], THERE)[ONE].nanoseconds == 7_500_000_000
    assert counters.take([(ONE, sample(20, 1_000_000_000))], THERE)[ONE].nanoseconds == 27_500_000_000
    assert counters.node == 27_500_000_000


def test_a_container_that_sleeps_has_a_counter_all_the_same() -> None:
    counters = Counters()
    found = counters.take([(ONE, sample(0, 0)), (OTHER, sample(0, 0))], THERE)
    assert found[ONE].nanoseconds > 0
    assert counters.node == found[ONE].nanoseconds + found[OTHER].nanoseconds
    assert counters.take([(ONE, sample(15, 0))], THERE)[ONE].nanoseconds == found[ONE].nanoseconds


def test_the_same_sample_again_gives_the_same_reading_with_the_same_time() -> None:
    counters = Counters()
    first = counters.take([(ONE, sample(0))], THERE)[ONE]
    assert counters.take([(ONE, sample(0))], THERE)[ONE] == first
    assert counters.take([(ONE, sample(-5, 9))], THERE)[ONE] == first


def test_what_nobody_asked_about_for_long_is_not_made_up() -> None:
    counters = Counters()
    before = counters.take([(ONE, sample(0))], THERE)[ONE].nanoseconds
    after = counters.take([(ONE, sample(86_400, 1_000))], THERE)[ONE].nanoseconds
    assert after - before == 1_000 * LONGEST_GAP


def test_the_nodes_counter_keeps_what_pods_that_are_gone_have_used() -> None:
    counters = Counters()
    counters.take([(ONE, sample(0)), (OTHER, sample(0))], THERE)
    before = counters.node
    assert counters.take([(ONE, sample(15))], THERE).keys() == {ONE}
    assert counters.node == before + 7_500_000_000


def test_a_sample_that_is_missing_once_starts_no_counter_anew_and_a_pod_that_is_gone_does() -> None:
    counters = Counters()
    before = counters.take([(ONE, sample(0))], THERE)[ONE].nanoseconds
    assert counters.take([], THERE) == {}
    assert counters.take([(ONE, sample(30))], THERE)[ONE].nanoseconds == before + 15_000_000_000
    assert counters.take([], ()) == {}
    assert counters.take([(ONE, sample(60))], THERE)[ONE].nanoseconds == 7_500_000_000


@given(st.lists(st.tuples(st.integers(-100, 10_000), st.integers(0, 10**12)), max_size=30))
def test_no_counter_ever_goes_back_and_its_time_neither(steps: list[tuple[int, int]]) -> None:
    counters = Counters()
    seen = [counters.take([(ONE, sample(at, nanocores))], THERE)[ONE] for at, nanocores in steps]
    assert [reading.nanoseconds for reading in seen] == sorted(reading.nanoseconds for reading in seen)
    assert [reading.at for reading in seen] == sorted(reading.at for reading in seen)
