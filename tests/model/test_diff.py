from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.diff import equivalent, json_patch, merge_patch, others, same

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "a/b", "~", "~1"])
KEYS = st.sampled_from(["a", "b", "a/b", "~", "m~0n", "", "0"])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4))
OBJECTS = st.dictionaries(KEYS, JSON, max_size=5)


def apply_merge(target: Any, patch: Any) -> Any:
    """Apply a merge patch by RFC 7386, section 2, literally."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge(result.get(key), value)
    return result


def apply_json(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply a JSON patch (RFC 6902): add, remove and replace."""
    box = {"": deepcopy(document)}
    for operation in operations:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in operation["path"].split("/")]
        parent: Any = box
        for token in tokens[:-1]:
            parent = parent[int(token) if isinstance(parent, list) else token]
        last: Any = int(tokens[-1]) if isinstance(parent, list) else tokens[-1]
        if operation["op"] == "remove":
            del parent[last]
        elif operation["op"] == "add" and isinstance(parent, list):
            assert 0 <= last <= len(parent)
            parent.insert(last, operation["value"])
        else:
            assert operation["op"] == "add" or parent[last] is not operation
            parent[last] = operation["value"]
    return box[""]


def without_nulls(value: Any) -> Any:
    """Remove null members, which an API server treats as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


@given(OBJECTS, OBJECTS)
def test_applying_a_merge_patch_gives_the_new_object(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert same(without_nulls(apply_merge(old, merge_patch(old, new))), without_nulls(new))


@given(OBJECTS)
def test_no_difference_gives_an_empty_merge_patch(value: dict[str, Any]) -> None:
    assert merge_patch(value, deepcopy(value)) == {}


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_empty_once_applied(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge_patch(apply_merge(old, merge_patch(old, new)), new) == {}


def test_a_merge_patch_has_only_what_changes() -> None:
    old = {"a": {"b": 1, "c": 2, "d": [1]}, "e": "f"}
    new = {"a": {"b": 1, "c": 3, "d": [1, 2]}, "g": {}}
    assert merge_patch(old, new) == {"e": None, "a": {"c": 3, "d": [1, 2]}, "g": {}}


@given(JSON, JSON)
def test_values_are_equivalent_when_they_are_the_same_without_nulls(old: Any, new: Any) -> None:
    assert equivalent(old, new) is same(without_nulls(old), without_nulls(new))


def test_a_time_that_the_api_server_wrote_as_null_makes_no_patch() -> None:
    stored = {"conditions": [{"type": "Ready", "lastProbeTime": None}]}
    assert merge_patch(stored, {"conditions": [{"type": "Ready"}]}) == {}


@given(JSON, JSON)
def test_applying_a_json_patch_gives_the_new_value(old: Any, new: Any) -> None:
    assert same(apply_json(old, json_patch(old, new)), new)


@given(JSON)
def test_no_difference_gives_an_empty_json_patch(value: Any) -> None:
    assert json_patch(value, deepcopy(value)) == []


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}]),
        ([1], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}, {"op": "add", "path": "/2", "value": 3}]),
        ([1, 2, 3], [3], [{"op": "remove", "path": "/1"}, {"op": "remove", "path": "/0"}]),
        ([{"a": 1, "b": 2}], [{"a": 1, "b": 3}], [{"op": "replace", "path": "/0/b", "value": 3}]),
        (
            {"x/y": 1, "m~n": 2},
            {"x/y": 2},
            [{"op": "replace", "path": "/x~1y", "value": 2}, {"op": "remove", "path": "/m~0n"}],
        ),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    ],
)
def test_a_json_patch_has_only_what_changes(old: Any, new: Any, want: list[dict[str, Any]]) -> None:
    assert json_patch(old, new) == want


def test_members_of_a_list_that_another_lacks_are_found_without_comparing_each_with_each() -> None:
    class Compared(dict[str, Any]):
        times = 0

        def __eq__(self, other: object) -> bool:
            Compared.times += 1
            return dict.__eq__(self, other)

        __hash__ = None  # type: ignore[assignment]

    many = [Compared(key=f"k{number}", operator="Exists") for number in range(1000)]
    assert others([*many, {"operator": "Exists", "key": "new"}], reversed(many)) == [
        {"operator": "Exists", "key": "new"}
    ]
    assert Compared.times == 0
    assert others([{"a": 1, "b": [2]}], [{"b": [2], "a": 1}]) == []
