"""Scores in the reference's arithmetic, weights, modes, and the scores in decisions."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.placing.prioritizers import allocatable, balance
from agent.ranking.placing.read import managed_cluster
from tests.ranking.placing.fleets import NOW, Raw, addon, built_in, cluster, evaluated, exact, names, placement, score

ABC = ("a", "b", "c")


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        ([1, 0, 0], [-100, 100, 100]),
        ([2, 1, 1], [-100, 0, 0]),
        ([3, 1, 2], [-100, 32, -32]),
        ([0, 0, 0], [100, 100, 100]),
        ([4, 4, 4], [-100, -100, -100]),
        ([7, 6, 5], [-100, -70, -42]),
    ],
    ids=str,
)
def test_balance(counts: list[int], want: list[int]) -> None:
    elsewhere = {name: count for name, count in zip(ABC, counts, strict=True) if count}
    assert list(balance(ABC, elsewhere).values()) == want


def test_balance_compares_with_clusters_that_are_no_candidates() -> None:
    found = evaluated(
        placement(prioritizerPolicy=exact(built_in("Balance"))),
        [cluster("a"), cluster("b"), cluster("far", member="")],
        elsewhere={"far": 4, "gone": 2, "a": 1},
    )
    assert found.scores == {"a": 50, "b": 100}


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        (["50", "80", "100"], {"a": -100, "b": 19, "c": 100}),
        (["50", "75", "100"], {"a": -100, "b": 0, "c": 100}),
        (["0", "0", "0"], {"a": 100, "b": 100, "c": 100}),
        (["5", "5", "5"], {"a": 100, "b": 100, "c": 100}),
        (["5", "", "5"], {"a": 100, "c": 100}),
        (["1", "", "2"], {"a": -100, "c": 100}),
        (["", "", ""], {}),
        (["1999m", "2", "2"], {"a": -100, "b": 100, "c": 100}),
        (["1", "2", "4"], {"a": -100, "b": -33, "c": 100}),
    ],
    ids=str,
)
def test_allocatable(amounts: list[str], want: dict[str, int]) -> None:
    clusters = [managed_cluster(cluster(name, cpu=amount)) for name, amount in zip(ABC, amounts, strict=True)]
    assert allocatable(clusters, "cpu") == want


def test_allocatable_without_capacity_is_not_told() -> None:
    bare = cluster("b", cpu="3")
    bare["status"]["capacity"] = {}
    clusters = [managed_cluster(each) for each in (cluster("a", cpu="1"), bare, cluster("c", cpu="2"))]
    assert allocatable(clusters, "cpu") == {"a": -100, "c": 100}


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8))
def test_allocatable_is_always_between_the_bounds_and_in_order(amounts: list[int]) -> None:
    clusters = [managed_cluster(cluster(f"c{n:02}", cpu=f"{amount}m")) for n, amount in enumerate(amounts)]
    found = list(allocatable(clusters, "cpu").values())
    assert all(-100 <= each <= 100 for each in found)
    by_amount = [value for _, value in sorted(zip(amounts, found, strict=True))]
    assert by_amount == sorted(by_amount)


def test_steady_is_100_for_what_is_decided_and_0_otherwise() -> None:
    wanted = placement(prioritizerPolicy=exact(built_in("Steady")))
    assert evaluated(wanted, [cluster("a"), cluster("b")], decided=["b"]).scores == {"a": 0, "b": 100}


@pytest.mark.parametrize(
    ("scores", "want", "reason"),
    [
        ([score("usage", "a", {"cpu": 42})], 42, "AddOn/usage/cpu 42"),
        ([score("usage", "a", {"cpu": -42}, valid=1)], -42, "AddOn/usage/cpu -42"),
        ([], 0, "AddOn/usage/cpu 0 (missing)"),
        ([score("usage", "a", {"mem": 42})], 0, "AddOn/usage/cpu 0 (missing)"),
        ([score("usage", "b", {"cpu": 42})], 0, "AddOn/usage/cpu 0 (missing)"),
        ([score("other", "a", {"cpu": 42})], 0, "AddOn/usage/cpu 0 (missing)"),
        ([score("usage", "a", {"cpu": 42}, valid=0)], 0, "AddOn/usage/cpu 0 (expired)"),
        ([score("usage", "a", {"cpu": 42}, valid=-60)], 0, "AddOn/usage/cpu 0 (expired)"),
    ],
    ids=["a value", "still valid", "no object", "no such score", "of another", "another object", "this moment", "old"],
)
def test_scores_of_others(scores: list[Raw], want: int, reason: str) -> None:
    wanted = placement(prioritizerPolicy=exact(addon("usage", "cpu")))
    found = evaluated(wanted, [cluster("a")], scores=scores).decided["a"]
    assert (found.score, found.reason) == (want, reason)


def test_expired_scores_are_warned_of_and_those_that_will_expire_are_a_timer() -> None:
    wanted = placement(prioritizerPolicy=exact(addon("usage", "cpu")), numberOfClusters=1)
    scores = [
        score("usage", "a", {"cpu": 90}, valid=-1),
        score("usage", "b", {"cpu": 80}, valid=30),
        score("usage", "c", {"cpu": 70}, valid=90),
        score("other", "c", {"cpu": 70}, valid=5),
        score("usage", "d", {"cpu": 80}, valid=-9),
    ]
    clusters = [cluster(name) for name in "abcd"]
    first = evaluated(wanted, clusters, scores=scores)
    assert first.warnings == ("AddOnPlacementScores a/usage d/usage expired in plugin AddOn/usage/cpu",)
    assert (names(first), first.again) == (["b"], NOW + timedelta(seconds=30))
    assert first.again is not None
    second = evaluated(wanted, clusters, scores=scores, now=first.again)
    assert (names(second), second.again) == (["c"], NOW + timedelta(seconds=90))


STEADY, BALANCE = built_in("Steady"), built_in("Balance")


@pytest.mark.parametrize(
    ("policy", "want", "reason"),
    [
        (None, 200, "Balance 100, Steady 100"),
        ({}, 200, "Balance 100, Steady 100"),
        ({"mode": "Additive"}, 200, "Balance 100, Steady 100"),
        ({"mode": ""}, 200, "Balance 100, Steady 100"),
        ({"mode": "Additive", "configurations": [built_in("Steady", 3)]}, 400, "Balance 100, Steady 100 x 3"),
        ({"mode": "Additive", "configurations": [built_in("Balance", 0)]}, 100, "Steady 100"),
        (
            {"configurations": [addon("usage", "cpu", -2)]},
            158,
            "Balance 100, Steady 100, AddOn/usage/cpu 21 x -2",
        ),
        ({"mode": "Exact"}, 0, ""),
        (exact(STEADY), 100, "Steady 100"),
        (exact(built_in("Steady", -10)), -1000, "Steady 100 x -10"),
        (exact(STEADY, built_in("Steady", 2)), 200, "Steady 100 x 2"),
        (exact(built_in("Steady", 2), built_in("Steady", 0)), 0, ""),
        (exact(addon("usage", "cpu"), addon("usage", "cpu", 2)), 63, "AddOn/usage/cpu 21, AddOn/usage/cpu 21 x 2"),
        (exact(STEADY, addon("usage", "cpu")), 121, "Steady 100, AddOn/usage/cpu 21"),
        (exact({"scoreCoordinate": {"builtIn": "Steady"}}), 100, "Steady 100"),
        (exact(built_in("Magic", 0)), 0, ""),
    ],
    ids=[
        "no policy",
        "an empty one",
        "Additive",
        "no mode",
        "Additive with another weight",
        "Additive with weight 0",
        "Additive with one more, negative",
        "Exact with none",
        "Exact",
        "the lowest weight",
        "the last of built-in duplicates",
        "the last of them switches it off",
        "AddOn duplicates both count",
        "the order of reasons",
        "type BuiltIn and weight 1 are defaults",
        "an unknown name that is switched off",
    ],
)
def test_weights_and_modes(policy: Raw | None, want: int, reason: str) -> None:
    wanted = placement() if policy is None else placement(prioritizerPolicy=policy)
    found = evaluated(wanted, [cluster("a")], decided=["a"], scores=[score("usage", "a", {"cpu": 21})])
    assert found.misconfigured == ""
    assert (found.decided["a"].score, found.decided["a"].reason) == (want, reason)


def test_a_negative_total_may_win() -> None:
    wanted = placement(prioritizerPolicy=exact(addon("usage", "cpu")), numberOfClusters=1)
    scores = [score("usage", "a", {"cpu": -60}), score("usage", "b", {"cpu": -40})]
    assert names(evaluated(wanted, [cluster("a"), cluster("b")], scores=scores)) == ["b"]


def test_a_cluster_that_does_not_tell_its_allocatable_gets_nothing() -> None:
    wanted = placement(prioritizerPolicy=exact(built_in("ResourceAllocatableCPU", 2)))
    found = evaluated(wanted, [cluster("a", cpu="1"), cluster("b"), cluster("c", cpu="9")])
    assert found.scores == {"a": -200, "b": 0, "c": 200}
    assert found.decided["b"].reason == "ResourceAllocatableCPU 0 x 2 (missing)"


def test_memory_is_scored_of_its_own() -> None:
    clusters: list[Any] = [cluster("a"), cluster("b")]
    for each, memory in zip(clusters, ("1Gi", "2Gi"), strict=True):
        each["status"].update(allocatable={"memory": memory}, capacity={"memory": memory})
    wanted = placement(prioritizerPolicy=exact(built_in("ResourceAllocatableMemory")))
    assert evaluated(wanted, clusters).scores == {"a": -100, "b": 100}
