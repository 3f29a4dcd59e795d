"""Constraints match as in kube-scheduler (k8s.io/component-helpers, scheduling/corev1)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.matching import (
    any_term_matches,
    intolerable,
    preferred_weight,
    required_terms,
    selects,
    term_matches,
    tolerates,
)

LABELS = {"zone": "a", "cores": "8", "empty": ""}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (expression("zone", "In", "b", "a"), True),
        (expression("zone", "In", "b"), False),
        (expression("rack", "In", "a"), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("rack", "NotIn", "a"), True),
        (expression("zone", "Exists"), True),
        (expression("empty", "Exists"), True),
        (expression("rack", "Exists"), False),
        (expression("rack", "DoesNotExist"), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("cores", "Gt", "7"), True),
        (expression("cores", "Gt", "8"), False),
        (expression("cores", "Lt", "9"), True),
        (expression("zone", "Gt", "1"), False),
        (expression("rack", "Lt", "1"), False),
        (expression("cores", "Gt"), False),
        (expression("zone", "Like", "a"), False),
        ({}, False),
        ({"matchExpressions": []}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]}, True),
    ],
    ids=lambda value: str(value),
)
def test_a_term_matches_a_node_as_in_kube_scheduler(term: dict[str, Any], matches: bool) -> None:
    assert term_matches(term, LABELS, "n1") is matches


def test_expressions_of_a_term_must_all_match_and_terms_are_alternatives() -> None:
    zone, other = (expression(key, "Exists")["matchExpressions"] for key in ("zone", "x"))
    both = {"matchExpressions": [*zone, *other]}
    assert not any_term_matches([both], LABELS, "n1")
    assert any_term_matches([both, expression("zone", "Exists")], LABELS, "n1")
    assert not any_term_matches([], LABELS, "n1")
    assert not any_term_matches([{}], LABELS, "n1")


def test_a_selector_wants_every_pair() -> None:
    assert selects(None, LABELS)
    assert selects({}, LABELS)
    assert selects({"zone": "a", "empty": ""}, LABELS)
    assert not selects({"zone": "a", "rack": ""}, LABELS)


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": None}, {"podAffinity": {}}, {"nodeAffinity": {}}])
def test_an_affinity_that_requires_nothing_is_none(affinity: dict[str, Any] | None) -> None:
    assert required_terms(affinity) is None
    assert preferred_weight(affinity, LABELS, "n1") == 0


def test_weights_of_matching_preferences_add_up() -> None:
    preferred = [
        {"weight": 10, "preference": expression("zone", "In", "a")},
        {"weight": 5, "preference": expression("cores", "Gt", "4")},
        {"weight": 80, "preference": expression("zone", "In", "b")},
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert preferred_weight(affinity, LABELS, "n1") == 15


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
    ],
    ids=lambda value: str(value),
)
def test_a_toleration_covers_a_taint_as_in_kube_scheduler(toleration: dict[str, Any], covers: bool) -> None:
    assert tolerates(toleration, TAINT) is covers


@pytest.mark.parametrize(
    ("operator", "value", "covers"),
    [("Gt", "900", True), ("Gt", "950", False), ("Lt", "951", True), ("Lt", "950", False), ("Near", "950", False)],
)
def test_a_toleration_may_compare_numbers(operator: str, value: str, covers: bool) -> None:
    taint = {"key": "sla", "value": "950", "effect": "NoExecute"}
    assert tolerates({"key": "sla", "operator": operator, "value": value}, taint) is covers
    assert not tolerates({"key": "sla", "operator": operator, "value": value}, taint | {"value": "high"})


def test_a_taint_without_value_is_covered_by_an_equal_without_value() -> None:
    assert tolerates({"key": "k"}, {"key": "k", "effect": "NoSchedule"})


def test_the_first_taint_that_nothing_covers_is_named_and_a_preference_never_is() -> None:
    soft = TAINT | {"key": "soft", "effect": "PreferNoSchedule"}
    other = TAINT | {"key": "other", "effect": "NoExecute"}
    assert intolerable([soft, TAINT, other], [{"key": "k", "operator": "Exists"}]) == other
    assert intolerable([soft], []) is None


taints = st.fixed_dictionaries({"key": st.sampled_from("ab"), "effect": st.sampled_from(["NoSchedule", "NoExecute"])})


@given(st.lists(taints))
def test_who_tolerates_everything_goes_everywhere(found: list[dict[str, str]]) -> None:
    assert intolerable(found, [{"operator": "Exists"}]) is None
