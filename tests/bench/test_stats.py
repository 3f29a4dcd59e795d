"""Percentiles and growth of counters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.lab.benchmarks.stats import Spread, grown, percentile


def test_the_99th_percentile_of_a_hundred_values_is_the_99th_of_them() -> None:
    assert percentile(range(1, 101), 99) == 99


def test_the_median_of_an_even_number_of_values_is_the_lower_of_the_two_in_the_middle() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.0


def test_of_few_values_the_99th_percentile_is_the_largest() -> None:
    assert percentile([0.1, 0.9, 0.5], 99) == 0.9


def test_there_is_no_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_a_percentage_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile([1.0], percent)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.1, 100))
def test_a_percentile_is_the_smallest_value_that_covers_its_share(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-9
    assert sum(value < found for value in values) < percent / 100 * len(values) + 1e-9


def test_a_spread_holds_the_median_the_99th_percentile_and_the_longest() -> None:
    assert Spread.of([float(value) for value in range(1, 201)]) == Spread(100.0, 198.0, 200.0)


def test_counters_that_stood_still_are_left_out_and_new_ones_count_from_zero() -> None:
    assert grown({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 5.0, "c": 4.0}) == {"b": 3.0, "c": 4.0}
