import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.duration import InvalidDuration, seconds, written


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("60s", 60),
        ("1m30s", 90),
        ("100ms", 0.1),
        ("1h", 3600),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("30s1m", 90),
        ("7d", 604800),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        ("2ns", 2e-9),
        ("0s", 0),
        ("0", 0),
        ("90", 90),
        ("0.25", 0.25),
        ("1e+06", 1e6),
    ],
)
def test_durations_of_kubernetes_and_plain_seconds_are_read(text: str, length: float) -> None:
    assert seconds(text) == pytest.approx(length, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "s", "soon", "5y", "1 m", "1m 30s", "-1", "-5s", "+5s", "1m30", "1s,2s", "nan", "inf", "1..5s", "٣s"]
)
def test_all_else_is_refused_with_what_a_duration_is(text: str) -> None:
    with pytest.raises(InvalidDuration, match="must be a duration such as 60s, 1m30s or 100ms"):
        seconds(text)


@pytest.mark.parametrize(
    ("length", "text"), [(0, "0s"), (0.5, "500ms"), (9, "9s"), (90, "1m30s"), (3600, "1h"), (14400.5, "4h0.5s")]
)
def test_a_length_is_written_as_kubernetes_does(length: float, text: str) -> None:
    assert written(length) == text


@given(st.integers(0, 10**9))
def test_what_is_written_is_read_again(milliseconds: int) -> None:
    assert seconds(written(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, rel=1e-5)
