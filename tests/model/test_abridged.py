"""Abridged lists in messages."""

import pytest

from agent.model.abridged import abridged


@pytest.mark.parametrize(
    ("items", "joiner", "in_brackets", "wanted"),
    [
        ("", ", ", False, ""),
        ("a", ", ", False, "a"),
        ("ab", ", ", False, "a, b"),
        ("abc", ", ", False, "a, b and 1 more"),
        ("abcd", "; ", False, "a; b; and 2 more"),
        ("abcd", "; ", True, "a; b (and 2 more)"),
    ],
)
def test_the_first_are_named_and_the_others_counted(items: str, joiner: str, in_brackets: bool, wanted: str) -> None:
    assert abridged(tuple(items), 2, joiner, in_brackets=in_brackets) == wanted
