import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.base.backoff import Backoff


@given(st.floats(0.001, 5), st.floats(5, 100), st.integers(1, 60))
def test_every_delay_lies_between_half_and_all_of_what_doubling_gives_and_never_above_the_cap(
    first: float, cap: float, tries: int
) -> None:
    backoff = Backoff(first, cap)
    for attempt in range(tries):
        full = min(cap, first * 2.0 ** min(attempt, 32))
        assert full / 2 <= backoff.next() <= full
    assert backoff.attempts == tries


def test_delays_differ_so_that_those_who_failed_together_do_not_come_back_together() -> None:
    assert len({Backoff(1, 10).next() for _ in range(50)}) > 40


def test_a_reset_starts_with_the_shortest_delay_again() -> None:
    backoff = Backoff(1, 1000)
    for _ in range(8):
        backoff.next()
    backoff.reset()
    assert backoff.attempts == 0
    assert backoff.next() <= 1


def test_a_thousand_failures_still_give_a_finite_delay() -> None:
    backoff = Backoff(0.1, 30)
    delays = [backoff.next() for _ in range(1000)]
    assert delays[-1] == pytest.approx(22.5, abs=7.5)
