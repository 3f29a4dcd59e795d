import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.pattern import InvalidPattern, compile_pattern, matches


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
    assert matches(pattern, key, value) is want


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
    assert not matches(pattern, "key", "a" * 10_000 + "c")


@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_an_expression_or_refused(pattern: str, key: str, value: str) -> None:
    with contextlib.suppress(InvalidPattern):
        assert isinstance(matches(pattern, key, value), bool)
