import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.pattern import InvalidPattern, LabelPattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "key", "value", "want"),
    [
        ("^app=", "app", "web", True),
        ("^app=", "my/app", "web", False),
        ("app=", "my/app", "web", True),
        ("^a=d$", "a", "d", True),
        ("^a=d$", "a", "dd", False),
        ("^.*=skip$", "x", "skip", True),
        ("foo.com/bar|baz.com/foo", "baz.com/foo", "b", True),
        (r"^kueue\.x-k8s\.io\/queue-name", "kueue.x-k8s.io/queue-name", "q", True),
        ("(?i)APP", "app", "x", True),
        (r"^\pL+=", "app", "x", True),
        (r"=x\z", "app", "x", True),
        ("[[:alpha:]]=", "app", "x", True),
        (r"\Qa.b\E=", "a.b", "x", True),
        (r"\Qa.b\E=", "acb", "x", False),
        ("(?P<name>a)=", "a", "x", True),
        ("", "app", "web", False),
        (None, "app", "web", False),
    ],
)
def test_expressions_are_searched_in_key_and_value(pattern: str | None, key: str, value: str, want: bool) -> None:
    assert LabelPattern(pattern).matches(key, value) is want


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing )"),
        ("?!foo", "no argument for repetition operator"),
        ("(?=look-ahead)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("[z-a]", "invalid character class range"),
        ("a{1001}", "invalid repetition size"),
        ("x" * 100_000, "pattern too large"),
        ("\ud800", "not Unicode text"),
    ],
)
def test_what_re2_refuses_is_refused_in_its_words(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        compile_pattern(pattern)
    assert "is not a regular expression" in str(refused.value)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_wrong_expression_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern("(wrong")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+$", "(a|a?)+b", "(.*a){20}b"])
def test_no_expression_takes_for_ever(pattern: str) -> None:
    # A backtracking engine would need longer than the universe is old; the test's own timeout is the limit.
    assert not LabelPattern(pattern, work=1 << 40).matches("key", "a" * 10_000 + "c")


@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_an_expression_or_refused(pattern: str, key: str, value: str) -> None:
    with contextlib.suppress(InvalidPattern):
        assert isinstance(LabelPattern(pattern).matches(key, value), bool)


SLOW = (
    "(?:" + "|".join(f".{{{index}}}x" for index in range(20)) + ")q",
    "(?:a?){100}a{100}q",
    "(?:.*a){97}q",
    "[ab].{120}q",
)
"""Expressions that RE2 matches slowly for their length."""


@pytest.mark.parametrize("pattern", SLOW)
def test_no_expression_over_labels_takes_long_for_an_object(pattern: str) -> None:
    found = LabelPattern(pattern)

    def search() -> None:
        for index in range(100_000):
            assert not found.matches(f"{index}.io/{'a' * 63}", "a" * 63)

    began = time.thread_time()
    with pytest.raises(InvalidPattern, match="is too large for so many labels"):
        search()
    assert time.thread_time() - began < 0.25


def test_a_long_expression_over_labels_is_refused_with_its_length_and_the_limit() -> None:
    with pytest.raises(InvalidPattern, match="it has 257 characters, and 256 are allowed: shorten it"):
        LabelPattern("x" * 257)
    assert LabelPattern("x" * 256).matches("x" * 256, "")


def test_an_expression_with_a_large_program_is_refused() -> None:
    with pytest.raises(InvalidPattern, match="pattern too large"):
        LabelPattern(r"\pL{20}q")


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(app\.kubernetes\.io/(name|instance|component|part-of|managed-by)|team|cost-center)=",
        r"^(?:[a-z0-9]+\.)*example\.com/.*=",
        r"^kueue\.x-k8s\.io\/queue-name",
        "|".join(f"^label-{index:02}=" for index in range(20)),
    ],
)
def test_ordinary_expressions_have_room_for_a_thousand_labels(pattern: str) -> None:
    found = LabelPattern(pattern)
    for index in range(1000):
        found.matches(f"example.org/label-{index}", "a-value-of-some-length")


def test_asking_again_takes_no_second_search() -> None:
    pattern, labels = SLOW[1], [(f"again{index}.io/{'a' * 63}", "a" * 63) for index in range(20)]

    def ask() -> float:
        found, began = LabelPattern(pattern), time.thread_time()
        for key, value in labels:
            found.matches(key, value)
        return time.thread_time() - began

    first = ask()
    assert min(ask() for _ in range(5)) < first / 5
