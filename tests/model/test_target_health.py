"""Health conditions of a Target."""

import math
from typing import Any

import pytest

from agent.model.target_health import InvalidTerm, Standing, failover_after, first_term, flaws, standing


def target(annotations: dict[str, str] | None = None, **conditions: str) -> dict[str, Any]:
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {"metadata": {"annotations": annotations or {}}, "status": {"conditions": listed}}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({}, Standing()),
        (target({"multicluster/retire": "true"}), Standing(retiring=True)),
        (target({"multicluster.admiralty.io/retire": "true"}), Standing(retiring=True)),
        (target({"multicluster/retire": "false"}), Standing()),
        (target({"multicluster/lost": "true"}), Standing(lost=True, declared=True)),
        (target(Lost="True"), Standing(lost=True)),
        (target({"multicluster/failover-now": "true"}, Lost="True"), Standing(lost=True, asked=True)),
        (target({"multicluster/failover-now": "true"}), Standing()),
        (target(Lost="False", Stable="True", FailoverHeld="False"), Standing()),
        (target(Stable="False", FailoverHeld="True"), Standing(held=True, returning=True)),
    ],
)
def test_what_a_target_says(manifest: dict[str, Any], expected: Standing) -> None:
    assert standing(manifest) == expected


def test_why_it_has_no_new_pods() -> None:
    assert Standing(held=True).closed == ""
    assert "remove multicluster/lost" in Standing(lost=True, declared=True).closed
    assert "remove multicluster/retire" in Standing(retiring=True).closed
    assert "not answered" in Standing(lost=True).closed
    assert "was away" in Standing(returning=True).closed


@pytest.mark.parametrize(
    ("of", "silent", "after", "lost"),
    [
        (Standing(), 1000, None, False),
        (Standing(lost=True), 0, None, True),
        (Standing(lost=True), 300, 600, False),
        (Standing(lost=True), 600, 600, True),
        (Standing(), 30, 30, True),
        (Standing(lost=True), 9000, math.inf, False),
        (Standing(lost=True, asked=True), 1, 600, True),
        (Standing(lost=True, asked=True), 1, math.inf, False),
        (Standing(lost=True, held=True), 9000, None, False),
        (Standing(held=True), 9000, 30, False),
        (Standing(lost=True, declared=True, held=True), 0, math.inf, True),
    ],
)
def test_which_pods_a_lost_target_has_lost(of: Standing, silent: float, after: float | None, lost: bool) -> None:
    assert of.has_lost(silent, after) is lost


def test_the_first_term_that_can_be_read_counts() -> None:
    assert first_term([None, {}, {"multicluster/failover-after": "30s"}]) == 30
    assert first_term([{"multicluster/failover-after": "never"}, {"multicluster/failover-after": "30s"}]) == math.inf
    assert first_term([{"multicluster/failover-after": "soon"}, {"multicluster/failover-after": "5m"}]) == 300
    assert first_term([None, {}]) is None


@pytest.mark.parametrize("text", ["", "soon", "9s", "-1m", "nan", "inf"])
def test_terms_that_are_none(text: str) -> None:
    with pytest.raises(InvalidTerm):
        failover_after(text)


def test_annotations_that_say_something() -> None:
    assert flaws(None) == []
    assert flaws({"multicluster/failover-after": "30s", "multicluster/retire": "true"}) == []
    assert flaws({"multicluster/fail-back": "auto", "multicluster/lost": "false"}) == []


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("multicluster/failover-after", "1s", "'1s' must be 10s at least, or never"),
        ("multicluster.admiralty.io/failover-after", "", "'' must be a duration"),
        ("multicluster/fail-back", "yes", "'yes' must be one of never, auto"),
        ("multicluster/retire", "yes", "'yes' must be one of true, false"),
    ],
)
def test_what_is_wrong_with_annotations(key: str, value: str, reason: str) -> None:
    ((field, said),) = flaws({key: value})
    assert field == f"metadata.annotations[{key}]"
    assert said.startswith(reason)
