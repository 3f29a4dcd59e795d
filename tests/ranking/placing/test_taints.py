"""Taints and tolerations, whose seconds count from the taint's timeAdded."""

from datetime import timedelta
from typing import Any

import pytest

from agent.api.names.ocm import OURS
from tests.ranking.placing.fleets import NOW, Raw, cluster, evaluated, exact, names, placement, taint

MAINTENANCE = taint("maintenance", age=10)


def tolerates(key: str = "", operator: str | None = None, seconds: int | None = None, **rest: str) -> Raw:
    found: Raw = {"key": key, **rest}
    if operator is not None:
        found["operator"] = operator
    if seconds is not None:
        found["tolerationSeconds"] = seconds
    return found


@pytest.mark.parametrize(
    ("toleration", "taints", "decided"),
    [
        (None, MAINTENANCE, False),
        (tolerates("maintenance", "Exists"), MAINTENANCE, True),
        (tolerates("", "Exists"), MAINTENANCE, True),
        (tolerates("maintenance"), MAINTENANCE, True),
        (tolerates("maintenance", "Equal", value="soon"), MAINTENANCE, False),
        (tolerates("maintenance", "Equal", value="soon"), taint("maintenance", value="soon"), True),
        (tolerates("maintenance", "Exists"), taint("maintenance", value="soon"), True),
        (tolerates("other", "Exists"), MAINTENANCE, False),
        (tolerates("maintenance", "Exists", effect="NoSelect"), MAINTENANCE, True),
        (tolerates("maintenance", "Exists", effect="NoSelectIfNew"), MAINTENANCE, False),
        (tolerates("maintenance", "Exists", effect="NoSelect"), taint("maintenance", "NoSelectIfNew"), False),
        (tolerates("maintenance", "Exists", 11), MAINTENANCE, True),
        (tolerates("maintenance", "Exists", 10), MAINTENANCE, False),
        (tolerates("maintenance", "Exists", 0), MAINTENANCE, False),
        (tolerates("maintenance", "Exists", -5), MAINTENANCE, False),
        (tolerates("maintenance", "Exists", 2**62), MAINTENANCE, True),
        (tolerates("maintenance", "Exists", 10), {"key": "maintenance", "effect": "NoSelect"}, False),
        (tolerates("maintenance", "Exists"), {"key": "maintenance", "effect": "NoSelect"}, True),
        (None, taint("maintenance", "PreferNoSelect"), True),
        (None, taint("maintenance", "NoSelectIfNew"), False),
    ],
    ids=[
        "no toleration",
        "Exists",
        "Exists for every key",
        "Equal is the default, an empty value equals none",
        "another value",
        "the same value",
        "Exists for any value",
        "another key",
        "its effect",
        "another effect",
        "NoSelect does not cover NoSelectIfNew of new ones",
        "seconds that are not over",
        "seconds that are over this moment",
        "no seconds",
        "less than no seconds",
        "seconds beyond all calendars",
        "seconds without a time to count from",
        "no seconds and no time",
        "PreferNoSelect keeps nobody away",
        "NoSelectIfNew keeps new ones away",
    ],
)
def test_who_is_tolerated(toleration: Raw | None, taints: Raw, decided: bool) -> None:
    wanted = placement(tolerations=[toleration] if toleration else [])
    assert names(evaluated(wanted, [cluster("eu", taints=[taints])])) == (["eu"] if decided else [])


@pytest.mark.parametrize(
    ("tolerations", "why"),
    [
        ([], "taint maintenance:NoSelect is not tolerated"),
        ([tolerates("maintenance", "Exists", 5)], "is tolerated no longer, its tolerationSeconds are over"),
    ],
)
def test_why_a_cluster_is_not_tolerated(tolerations: list[Raw], why: str) -> None:
    found = evaluated(placement(tolerations=tolerations), [cluster("eu", taints=[MAINTENANCE])])
    assert found.refused["eu"].endswith(why)
    assert found.refused["eu"].startswith("taint maintenance:NoSelect")


def test_a_taint_with_a_value_is_told_as_kubectl_does() -> None:
    found = evaluated(placement(), [cluster("eu", taints=[taint("dedicated", value="lab")])])
    assert found.refused["eu"] == "taint dedicated=lab:NoSelect is not tolerated"


@pytest.mark.parametrize("tolerations", [[], [tolerates("cordon", "Exists", effect="NoSelect")]])
def test_a_decided_cluster_stays_with_no_select_if_new(tolerations: list[Raw]) -> None:
    clusters = [cluster("eu", taints=[taint("cordon", "NoSelectIfNew")])]
    wanted = placement(tolerations=tolerations)
    assert names(evaluated(wanted, clusters, decided=["eu"])) == ["eu"]
    assert names(evaluated(wanted, clusters, decided=["us"])) == []


def test_a_taint_that_a_user_has_just_added_to_a_cluster_of_ours_is_tolerated_before_its_moment_is_written() -> None:
    added = {"key": "maintenance", "effect": "NoSelect"}
    clusters = [cluster("eu", labels={OURS: "true"}, taints=[added]), cluster("us", taints=[added])]
    found = evaluated(placement(tolerations=[tolerates("maintenance", "Exists", 60)]), clusters, decided=["eu", "us"])
    assert (names(found), found.again) == (["eu"], NOW + timedelta(seconds=60))
    at_once = [tolerates("maintenance", "Exists", 0)]
    assert names(evaluated(placement(tolerations=at_once), clusters, decided=["eu", "us"])) == []
    assert names(evaluated(placement(), clusters, decided=["eu", "us"])) == []


def test_all_taints_must_be_tolerated() -> None:
    clusters = [cluster("eu", taints=[MAINTENANCE, taint("quarantine")])]
    found = evaluated(placement(tolerations=[tolerates("maintenance", "Exists")]), clusters)
    assert found.refused["eu"] == "taint quarantine:NoSelect is not tolerated"


@pytest.mark.parametrize(
    ("seconds", "again"),
    [([60], 50), ([60, 30], 50), ([30, None], None), ([5], None), ([None], None)],
    ids=["one", "the longest of one taint counts", "one for ever", "over already", "for ever"],
)
def test_when_a_toleration_runs_out_it_is_looked_at_again(seconds: list[int | None], again: int | None) -> None:
    tolerations = [tolerates("maintenance", "Exists", each) for each in seconds]
    found = evaluated(placement(tolerations=tolerations), [cluster("eu", taints=[MAINTENANCE])], decided=["eu"])
    assert found.again == (None if again is None else NOW + timedelta(seconds=again))


def test_the_first_of_several_clusters_says_when_to_look_again_and_that_is_the_moment_it_goes() -> None:
    clusters = [
        cluster("ap", taints=[taint("maintenance", age=50)]),
        cluster("eu", taints=[taint("maintenance", age=20)]),
        cluster("us"),
    ]
    wanted = placement(tolerations=[tolerates("maintenance", "Exists", 60)])
    first = evaluated(wanted, clusters)
    assert (names(first), first.again) == (["ap", "eu", "us"], NOW + timedelta(seconds=10))
    assert first.again is not None
    second = evaluated(wanted, clusters, now=first.again)
    assert (names(second), second.again) == (["eu", "us"], NOW + timedelta(seconds=40))
    assert second.again is not None
    assert names(evaluated(wanted, clusters, now=second.again)) == ["us"]


@pytest.mark.parametrize(
    ("taints", "tolerations", "score"),
    [
        ([], [], 0),
        ([taint("slow", "PreferNoSelect")], [], -100),
        ([taint("slow", "PreferNoSelect"), taint("far", "PreferNoSelect")], [], -200),
        ([taint("slow", "PreferNoSelect")], [tolerates("slow", "Exists")], 0),
        ([taint("slow", "PreferNoSelect")], [tolerates("slow", "Exists", effect="NoSelect")], -100),
        ([taint("slow", "PreferNoSelect", age=10)], [tolerates("slow", "Exists", 5)], -100),
    ],
)
def test_prefer_no_select_costs_unless_it_is_tolerated(taints: list[Raw], tolerations: list[Any], score: int) -> None:
    wanted = placement(tolerations=tolerations, prioritizerPolicy=exact())
    found = evaluated(wanted, [cluster("eu", taints=taints)]).decided["eu"]
    assert (found.score, found.reason) == (score, f"PreferNoSelect {score}" if score else "")


def test_prefer_no_select_leaves_a_cluster_to_others() -> None:
    clusters = [cluster("ap", taints=[taint("slow", "PreferNoSelect")]), cluster("us")]
    assert names(evaluated(placement(numberOfClusters=1), clusters)) == ["us"]
    assert names(evaluated(placement(numberOfClusters=2), clusters)) == ["ap", "us"]
