"""Annotations that are compatible, and annotations that contradict each other."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.labels import is_key
from agent.model import annotations
from agent.model.annotations import LIMIT, RESERVED, fitting, message, size
from tests.examples import examples


def test_sizes_are_bytes_of_keys_and_values() -> None:
    assert size({"a": "é", "bc": ""}) == 5


def test_what_fits_is_taken_as_it_is() -> None:
    assert fitting({"a": "1"}, {}) == ({}, ())
    assert fitting({"a": "1"}, {"a": None, "b": "2"}) == ({"a": None, "b": "2"}, ())


@pytest.mark.parametrize("key", ["", "a b", "/a", "a/b/c", "-a", "a" * 64, "Ü"])
def test_what_is_no_annotation_is_left_out(key: str) -> None:
    assert fitting({}, {key: "1", "B.example.com/C": "2"}) == ({"B.example.com/C": "2"}, (key,))
    assert fitting({}, {"a": 5}) == ({}, ("a",))


def test_the_largest_are_left_out_until_the_rest_fits_and_smaller_ones_always_come() -> None:
    half = LIMIT // 2
    current = {"old": "x" * half, "shrinks": "x" * 1000}
    changes = {"a": "x" * (half + 1), "b": "x" * half, "c": "x" * (half - RESERVED - 2000), "shrinks": "y"}
    assert fitting(current, changes) == ({"c": changes["c"], "shrinks": "y"}, ("a", "b"))


def test_of_many_that_are_left_out_some_are_named() -> None:
    told = message([f"{n:03}" + "k" * 300 for n in range(50)])
    assert "000k" in told
    assert "and 40 more" in told
    assert len(told) < 1200


KEYS = st.sampled_from(["a", "b", "example.com/C", "no key", "d"]) | st.text(max_size=3)
VALUES = st.text(max_size=12)
CHANGES = st.dictionaries(KEYS, VALUES | st.none() | st.integers() | st.lists(st.integers(), max_size=1))


@settings(max_examples=examples(500), deadline=None)
@given(st.dictionaries(KEYS, VALUES), CHANGES, st.integers(0, 60))
def test_what_is_taken_fits_and_what_is_left_out_is_left_out_again(
    current: dict[str, str], changes: dict[str, Any], limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annotations, "LIMIT", limit + RESERVED)
        kept, left_out = fitting(current, changes)
        assert kept.keys() | set(left_out) == changes.keys()
        assert not kept.keys() & set(left_out)
        after = {key: value for key, value in {**current, **kept}.items() if value is not None}
        assert size(after) <= max(limit, size(current))
        assert all(is_key(key.lower()) for key, value in kept.items() if value is not None)
        again, still = fitting(after, {key: changes[key] for key in left_out})
        assert (again, still) == ({}, left_out)
