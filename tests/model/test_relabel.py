from itertools import permutations
from typing import Any

import pytest

from agent.model.pattern import InvalidPattern
from agent.model.relabel import constraints, relabel, selector
from tests.model.pods import P

MIXED = {"foo.com/bar": "a", "baz.com/foo": "b", P + "baz": "c", "a": "d"}


@pytest.mark.parametrize(
    ("regexp", "want"),
    [
        (None, {P + "bar": "a", P + "foo": "b", P + "baz": "c", P + "a": "d"}),
        ("", {P + "bar": "a", P + "foo": "b", P + "baz": "c", P + "a": "d"}),
        ("foo.com/bar|baz.com/foo", {"foo.com/bar": "a", "baz.com/foo": "b", P + "baz": "c", P + "a": "d"}),
        ("^a=d$", {P + "bar": "a", P + "foo": "b", P + "baz": "c", "a": "d"}),
        ("=[ab]$", {"foo.com/bar": "a", "baz.com/foo": "b", P + "baz": "c", P + "a": "d"}),
        (r"^kueue\.x-k8s\.io\/queue-name", {P + "bar": "a", P + "foo": "b", P + "baz": "c", P + "a": "d"}),
    ],
)
def test_vectors_of_4_1_labels_are_rewritten_as_admiralty_rewrites_them(
    regexp: str | None, want: dict[str, str]
) -> None:
    assert relabel(MIXED, regexp) == want


def test_a_label_can_be_kept_by_its_value() -> None:
    assert relabel({"a": "skip", "b": "no"}, "^.*=skip$") == {"a": "skip", P + "b": "no"}


def test_no_labels_stay_none() -> None:
    assert relabel(None) == relabel({}) == {}


def test_an_invalid_regexp_is_an_error() -> None:
    with pytest.raises(InvalidPattern, match="regular expression"):
        relabel(MIXED, "?!foo")


@pytest.mark.parametrize(
    ("labels", "regexp", "want"),
    [
        ({"app": "1", "a.io/app": "2"}, None, {P + "app": "1"}),
        ({"b.io/app": "1", "a.io/app": "2"}, None, {P + "app": "2"}),
        ({P + "app": "1", "app": "2"}, None, {P + "app": "2"}),
        ({P + "app": "1", "app": "2"}, "admiralty", {P + "app": "1"}),
    ],
    ids=[
        "a key without a slash wins",
        "the first in alphabetical order wins",
        "also over our own prefix",
        "a kept key wins over all",
    ],
)
def test_of_two_labels_with_one_key_the_same_wins_every_time(
    labels: dict[str, str], regexp: str | None, want: dict[str, str]
) -> None:
    for order in permutations(labels.items()):
        assert relabel(dict(order), regexp) == want


@pytest.mark.parametrize(
    ("requirement", "regexp", "want_key"),
    [
        ({"key": "x.io/app", "operator": "In", "values": ["a", "b"]}, None, P + "app"),
        ({"key": "x.io/app", "operator": "In", "values": ["a", "b"]}, "^x.io/app=b$", "x.io/app"),
        ({"key": "x.io/app", "operator": "Exists"}, "^x.io/", "x.io/app"),
        ({"key": "x.io/app", "operator": "Exists"}, "=b$", P + "app"),
        ({"key": "app", "operator": "DoesNotExist"}, None, P + "app"),
    ],
)
def test_requirements_follow_the_labels_they_select(
    requirement: dict[str, Any], regexp: str | None, want_key: str
) -> None:
    assert selector({"matchExpressions": [requirement]}, regexp) == {
        "matchExpressions": [{**requirement, "key": want_key}]
    }


def test_affinity_and_spread_select_rewritten_labels_and_nothing_else_changes() -> None:
    def term(key: str) -> dict[str, Any]:
        return {
            "labelSelector": {"matchLabels": {key: "web"}},
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "topologyKey": "kubernetes.io/hostname",
        }

    def spec(key: str, hash: str) -> dict[str, Any]:
        weighted = {"weight": 5, "podAffinityTerm": {**term(key), "mismatchLabelKeys": [hash, "kept"]}}
        return {
            "affinity": {
                "nodeAffinity": {"x": [{"key": "app"}]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(key)]},
            },
            "topologySpreadConstraints": [{**term(key), "maxSkew": 1, "matchLabelKeys": [hash]}, {"maxSkew": 2}],
        }

    labels = {"app": "web", "hash": "1", "kept": "2"}
    assert constraints(spec("app", "hash"), labels, "^kept=2$") == spec(P + "app", P + "hash")


def test_a_spec_without_constraints_has_nothing_to_change() -> None:
    assert constraints({"containers": []}, {}, None) == {}
    assert constraints({"affinity": {"nodeAffinity": {"x": 1}}}, {}, None) == {}
