from hypothesis import given
from hypothesis import strategies as st

from agent.base.backoff import Allowance


def test_so_many_are_let_through_at_once_and_then_as_many_as_time_gives() -> None:
    allowance = Allowance(2.0, 3.0)
    assert [allowance.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert [allowance.take(100.5) for _ in range(2)] == [True, False]
    assert [allowance.take(1000.0) for _ in range(4)] == [True, True, True, False]


@given(st.floats(0.1, 100), st.integers(1, 50), st.lists(st.floats(0, 10), max_size=200))
def test_never_more_than_the_first_and_what_time_has_given(rate: float, at_once: int, pauses: list[float]) -> None:
    allowance, now, taken = Allowance(rate, at_once), 5.0, 0
    for pause in pauses:
        now += pause
        taken += allowance.take(now)
    assert taken <= at_once + (now - 5.0) * rate + 1e-6
