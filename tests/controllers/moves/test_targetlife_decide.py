"""Conditions of a Target whose cluster is cut off."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.clusters.health.silent_clusters import counted_as
from agent.model.targetlife import LifeState, TargetLife, Terms
from agent.moves.lost_targets.decide import HELD_SECONDS, View, annotations, before, conditions, held_due, terms

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT = 10_000.0
TERMS = Terms(300, 60)
SILENT = TargetLife(LifeState.UNREACHABLE, silent_since=AT - 20, outages=(AT - 20,))
LOST = TargetLife(LifeState.LOST, silent_since=AT - 300, outages=(AT - 300,), was_lost=True)
RETURNING = TargetLife(LifeState.RETURNING, ready_since=AT - 1, outages=(AT - 300,), was_lost=True)


def target(given: dict[str, str] | None = None, **told: tuple[str, str]) -> dict[str, Any]:
    listed = [{"type": kind, "status": words[0], "reason": words[1]} for kind, words in told.items()]
    return {"metadata": {"name": "eu", "annotations": given or {}}, "status": {"conditions": listed}}


def view(life: TargetLife, manifest: dict[str, Any] | None = None, *, held: bool = False, known: bool = True) -> View:
    return View(manifest or target(), life, TERMS, held, known, AT, NOW)


def said(of: View) -> dict[str, str]:
    return {each["type"]: f"{each['status']}/{each['reason']}" for each in conditions(of)}


BEFORE = {"Lost": ("True", "NoAnswer"), "FailoverHeld": ("True", "MostTargetsLost"), "Stable": ("False", "Flapping")}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(view(TargetLife()), {"Stable": "True/Stable"}, id="connected"),
        pytest.param(view(TargetLife(), known=False), {}, id="not looked at yet"),
        pytest.param(view(SILENT), {}, id="unreachable"),
        pytest.param(view(SILENT, held=True), {"FailoverHeld": "True/MostTargetsLost"}, id="most are"),
        pytest.param(view(LOST), {"Lost": "True/NoAnswer"}, id="lost"),
        pytest.param(view(LOST, held=True), {"FailoverHeld": "True/MostTargetsLost"}, id="would be lost"),
        pytest.param(
            view(SILENT, target({"multicluster/failover-now": "true"}), held=True), {"Lost": "True/Asked"}, id="asked"
        ),
        pytest.param(
            view(TargetLife(), target({"multicluster/failover-now": "true"})), {"Stable": "True/Stable"}, id="in vain"
        ),
        pytest.param(
            view(TargetLife(), target({"multicluster/lost": "true"}), known=False), {"Lost": "True/Declared"}, id="said"
        ),
        pytest.param(view(RETURNING), {"Stable": "False/Flapping"}, id="returning"),
        pytest.param(view(TargetLife(LifeState.RETURNING, outages=(AT - 5,))), {}, id="after a first short outage"),
        pytest.param(
            view(TargetLife(), target(**BEFORE)),
            {"Lost": "False/Answers", "FailoverHeld": "False/NotHeld", "Stable": "True/Stable"},
            id="all is well again",
        ),
        pytest.param(
            view(SILENT, target(**BEFORE)),
            {"Lost": "False/Unreachable", "FailoverHeld": "False/NotHeld", "Stable": "False/Flapping"},
            id="away again",
        ),
        pytest.param(
            view(SILENT, target(**BEFORE), known=False),
            {"Lost": "True/NoAnswer", "FailoverHeld": "True/MostTargetsLost", "Stable": "False/Flapping"},
            id="what was said stays while nothing is known",
        ),
    ],
)
def test_what_a_target_says(of: View, expected: dict[str, str]) -> None:
    assert said(of) == expected


def test_a_deletion_alone_is_nothing_to_say() -> None:
    manifest = target()
    manifest["metadata"]["generation"] = 1
    manifest["status"]["conditions"] = conditions(view(TargetLife(), manifest))
    manifest["metadata"] |= {"generation": 2, "deletionTimestamp": "2026-03-01T12:00:00Z"}
    assert conditions(view(TargetLife(), manifest)) == manifest["status"]["conditions"]
    assert said(view(LOST, manifest))["Lost"] == "True/NoAnswer"


def test_how_long_it_has_no_new_pods_is_told() -> None:
    twice = TargetLife(LifeState.RETURNING, outages=(AT - 600, AT - 300))
    found = find_condition(conditions(view(twice)), "Stable") or {}
    assert found["message"] == "it was away 2 times within the hour: no new pods go there before it has answered for 2m"


def test_outages_are_noted_once_and_forgotten() -> None:
    first = annotations(view(SILENT))
    assert first == {"multicluster/outages": '["2026-03-01T11:59:40Z"]'}
    noted = target({"multicluster/outages": '["2026-03-01T11:59:40Z"]'})
    assert annotations(view(SILENT, noted)) == {}
    assert annotations(view(TargetLife(), noted)) == {"multicluster/outages": None}
    assert annotations(view(TargetLife())) == {}


def test_what_a_person_did_not_want_to_wait_for_ends_with_the_outage() -> None:
    given = target({"multicluster/failover-now": "true"})
    assert annotations(view(TargetLife(), given)) == {"multicluster/failover-now": None}
    assert "multicluster/failover-now" not in annotations(view(SILENT, given))
    assert annotations(view(TargetLife(), given, known=False)) == {}


@pytest.mark.parametrize(
    ("manifest", "state"),
    [
        (target(), LifeState.CONNECTED),
        (target(Lost=("True", "NoAnswer")), LifeState.UNREACHABLE),
        (target(Lost=("True", "Declared")), LifeState.CONNECTED),
        (target(Lost=("False", "Answers"), Stable=("False", "Flapping")), LifeState.RETURNING),
    ],
)
def test_what_another_leader_goes_on_from(manifest: dict[str, Any], state: LifeState) -> None:
    assert before(manifest, AT, NOW).state is state


def test_outages_are_taken_over() -> None:
    told = (NOW - timedelta(seconds=100)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert before(target({"multicluster/outages": f'["{told}"]'}), AT, NOW).outages == (AT - 100,)
    assert before(target({"multicluster/outages": "soon"}), AT, NOW).outages == ()


def test_what_a_target_asks_for_counts_before_the_setting() -> None:
    assert terms(target(), 300, 60) == (Terms(300, 60), "")
    assert terms(target({"multicluster/failover-after": "never"}), 300, 60) == (Terms(math.inf, 60), "")
    found, flaw = terms(target({"multicluster/failover-after": "1s"}), 300, 60)
    assert found == Terms(300, 60)
    assert flaw.startswith("metadata.annotations[multicluster/failover-after]: '1s' must be 10s at least")


@pytest.mark.parametrize(
    ("life", "given", "wanted"),
    [
        pytest.param(SILENT, {}, "False/ClusterAnswers", id="silent"),
        pytest.param(LOST, {}, "False/ClusterAnswers", id="found lost by the leader before"),
        pytest.param(SILENT, {"multicluster/failover-now": "true"}, "True/Asked", id="a person knows better"),
    ],
)
def test_a_target_whose_cluster_answers_by_another_target_is_not_lost(
    life: TargetLife, given: dict[str, str], wanted: str
) -> None:
    manifest = target(given, Lost=("True", "NoAnswer"))
    assert said(replace(view(life, manifest), other="ns/eu-direct"))["Lost"] == wanted


def test_what_is_held_is_said_after_a_while_without_another_event() -> None:
    young = TargetLife(LifeState.UNREACHABLE, silent_since=AT - 1, outages=(AT - 1,))
    assert held_due(view(young, held=True)) == HELD_SECONDS - 1
    assert held_due(view(young)) == math.inf
    assert held_due(view(SILENT, held=True)) == math.inf


def test_what_does_not_count() -> None:
    known = {"metadata": {}, "status": {"clusterUID": "x"}}
    assert counted_as(known) == "x"
    assert counted_as({**known, "spec": {"self": True}}) == ""
    assert counted_as({**known, "metadata": {"annotations": {"multicluster/lost": "true"}}}) == ""
    assert counted_as({"metadata": {}}) == ""


def test_a_target_that_never_was_lost_says_that_its_cluster_answers_by_another() -> None:
    assert said(replace(view(SILENT), other="ns/eu-direct"))["Lost"] == "False/ClusterAnswers"
