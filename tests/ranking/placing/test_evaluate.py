"""A Placement from its sets to its conditions."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.placing.inputs import CelVerdicts
from agent.ranking.placing.outcome import Satisfied
from tests.ranking.placing.fleets import (
    NOW,
    Raw,
    addon,
    built_in,
    cluster,
    cluster_set,
    evaluated,
    exact,
    expression,
    names,
    placement,
    requires,
    score,
    taint,
)

KEEP = {"multicluster/keep-decided": "true"}
SETS = [cluster_set("default"), cluster_set("global", {}), cluster_set("eu", {"matchLabels": {"region": "eu"}})]
CLUSTERS = [
    cluster("a", labels={"region": "eu"}),
    cluster("b"),
    cluster("c", member="lab"),
    cluster("d", member="lab", labels={"region": "eu"}),
    cluster("e", member=""),
    cluster("gone", deleting=True),
]


@pytest.mark.parametrize(
    ("bound", "wanted", "decided"),
    [
        ([], [], ""),
        (["default"], [], "a b"),
        (["global"], [], "a b c d e"),
        (["eu"], [], "a d"),
        (["default", "eu"], [], "a b d"),
        (["default", "eu"], ["eu"], "a d"),
        (["default", "eu"], ["eu", "global"], "a d"),
        (["default"], ["global"], ""),
        (["lab"], [], ""),
        (["default", "lab"], ["lab"], ""),
    ],
    ids=[
        "nothing is bound",
        "a set by label",
        "the global set",
        "a set by selector",
        "two sets",
        "one of them is named",
        "one that is not bound is named, too",
        "only one that is not bound",
        "a set that does not exist",
        "named, bound, and does not exist",
    ],
)
def test_sets(bound: list[str], wanted: list[str], decided: str) -> None:
    found = evaluated(placement(clusterSets=wanted), CLUSTERS, sets=SETS, bound=bound)
    assert names(found) == decided.split()


def test_why_a_cluster_is_no_candidate() -> None:
    found = evaluated(placement(), CLUSTERS, sets=SETS, bound=["eu"])
    assert found.refused == {
        "b": "in no set that is bound to namespace shop (sets: default, global)",
        "c": "in no set that is bound to namespace shop (sets: global)",
        "e": "in no set that is bound to namespace shop (sets: global)",
        "gone": "it is being deleted",
    }
    found = evaluated(placement(clusterSets=["eu"]), CLUSTERS, sets=SETS, bound=["eu", "default"])
    assert found.refused["b"] == ("in no set of clusterSets that is bound to namespace shop (sets: default, global)")
    assert evaluated(placement(), [cluster("x", member="")], sets=[]).refused["x"].endswith("(sets: none)")


NO_BINDING = Satisfied(
    False, "NoManagedClusterSetBindings", "No valid ManagedClusterSetBindings found in placement namespace"
)
NONE_MATCHED = Satisfied(False, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
ALL = Satisfied(True, "AllDecisionsScheduled", "All cluster decisions scheduled")
NOBODY = [requires(labelSelector={"matchLabels": {"no": "body"}})]


@pytest.mark.parametrize(
    ("spec", "bound", "clusters", "want"),
    [
        ({}, [], CLUSTERS, NO_BINDING),
        ({}, ["lab"], CLUSTERS, NO_BINDING),
        ({"clusterSets": ["eu"]}, [], CLUSTERS, NO_BINDING),
        (
            {"clusterSets": ["lab", "eu"]},
            ["default"],
            CLUSTERS,
            Satisfied(False, "NoIntersection", "None of ManagedClusterSets [lab,eu] is bound to placement namespace"),
        ),
        (
            {},
            ["eu", "default"],
            [CLUSTERS[2], CLUSTERS[5]],
            Satisfied(
                False,
                "AllManagedClusterSetsEmpty",
                "All ManagedClusterSets [default,eu] have no member ManagedCluster",
            ),
        ),
        ({"predicates": NOBODY}, ["default"], CLUSTERS, NONE_MATCHED),
        ({"predicates": NOBODY, "numberOfClusters": 1}, ["default"], CLUSTERS, NONE_MATCHED),
        ({"numberOfClusters": 0}, ["default"], CLUSTERS, NONE_MATCHED),
        ({"numberOfClusters": -1}, ["default"], CLUSTERS, NONE_MATCHED),
        ({}, ["default"], CLUSTERS, ALL),
        ({"numberOfClusters": 1}, ["default"], CLUSTERS, ALL),
        ({"numberOfClusters": 2}, ["default"], CLUSTERS, ALL),
        (
            {"numberOfClusters": 5},
            ["default"],
            CLUSTERS,
            Satisfied(False, "NotAllDecisionsScheduled", "3 cluster decisions unscheduled"),
        ),
    ],
    ids=[
        "nothing is bound",
        "what is bound does not exist",
        "no binding goes before no intersection",
        "no intersection",
        "sets without members",
        "nobody matches",
        "nobody matches and some are wanted",
        "none is wanted",
        "fewer than none are wanted",
        "all are wanted",
        "fewer than there are",
        "as many as there are",
        "more than there are",
    ],
)
def test_the_condition_satisfied(spec: Raw, bound: list[str], clusters: list[Raw], want: Satisfied) -> None:
    assert evaluated(placement(**spec), clusters, sets=SETS, bound=bound).satisfied == want


def test_the_best_are_taken_and_ties_go_by_name() -> None:
    wanted = placement(numberOfClusters=2)
    clusters = [cluster(name) for name in "dbca"]
    assert names(evaluated(wanted, clusters)) == ["a", "b"]
    found = evaluated(wanted, clusters, decided=["d"], elsewhere={"a": 1})
    assert names(found) == ["b", "d"]
    assert found.scores == {"a": -100, "b": 100, "c": 100, "d": 200}
    assert found.refused == {"a": "score -100, not among the best 2", "c": "score 100, not among the best 2"}


def test_balance_can_win_over_steady_unless_decided_clusters_are_kept() -> None:
    clusters = [cluster("a"), cluster("b"), cluster("c")]
    elsewhere = {"c": 3}
    wanted = placement(numberOfClusters=1)
    assert names(evaluated(wanted, clusters, decided=["c"], elsewhere=elsewhere)) == ["a"]
    kept = placement(KEEP, numberOfClusters=1)
    assert names(evaluated(kept, clusters, decided=["c"], elsewhere=elsewhere)) == ["c"]


def test_kept_clusters_go_when_they_are_no_longer_feasible_or_too_many() -> None:
    wanted = placement(KEEP, numberOfClusters=2)
    clusters = [cluster("a"), cluster("b"), cluster("c", taints=[taint("x")]), cluster("d")]
    assert names(evaluated(wanted, clusters, decided=["c", "d"])) == ["a", "d"]
    assert names(evaluated(wanted, clusters, decided=["a", "b", "d"], elsewhere={"a": 1})) == ["b", "d"]


def test_two_placements_that_balance_share_the_clusters_and_stay_there() -> None:
    clusters = [cluster(name) for name in "abcd"]
    wanted = placement(numberOfClusters=2)
    first: list[str] = []
    second: list[str] = []
    for _ in range(3):
        first = names(evaluated(wanted, clusters, decided=first, elsewhere=dict.fromkeys(second, 1)))
        second = names(evaluated(wanted, clusters, decided=second, elsewhere=dict.fromkeys(first, 1)))
        assert (first, second) == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize(("named", "again"), [('"usage"', 40), ("managedCluster.metadata.labels.score", 2)])
def test_cel_is_looked_at_again_when_scores_expire_that_it_looks_at(named: str, again: int) -> None:
    expressions = [f"managedCluster.scores({named}).size() > 0"]
    wanted = placement(predicates=[requires(celSelector={"celExpressions": expressions})])
    scores = [
        score("usage", "a", {"cpu": 1}, valid=40),
        score("usage", "b", {"cpu": 1}, valid=-1),
        score("usage", "apart", {"cpu": 1}, valid=3),
        score("other", "a", {"cpu": 1}, valid=2),
    ]
    clusters = [cluster("a"), cluster("b"), cluster("apart", member="")]
    found = evaluated(wanted, clusters, scores=scores, cel=CelVerdicts())
    assert (names(found), found.again, found.warnings) == ([], NOW + timedelta(seconds=again), ())


def test_a_placement_without_times_is_not_looked_at_again() -> None:
    scores = [score("usage", "a", {"cpu": 1}, valid=5)]
    assert evaluated(placement(), [cluster("a")], scores=scores).again is None


def test_a_namespace_sees_its_own_bindings_only() -> None:
    elsewhere = placement()
    elsewhere["metadata"]["namespace"] = "other"
    assert evaluated(elsewhere, CLUSTERS).satisfied == NO_BINDING


def test_words_of_every_kind_of_refusal() -> None:
    clusters = [
        cluster("ap", taints=[taint("maintenance")], claims={"gpu": "true"}),
        cluster("dev"),
        cluster("edge", member=""),
        cluster("eu", claims={"gpu": "true"}),
        cluster("us", claims={"gpu": "true"}),
    ]
    scores = [score("usage", "eu", {"cpuNodeAvailable": 52}), score("usage", "us", {"cpuNodeAvailable": 48})]
    wanted = placement(
        numberOfClusters=1,
        predicates=[requires(claimSelector=expression("gpu", "In", "true"))],
        prioritizerPolicy=exact(built_in("Steady"), addon("usage", "cpuNodeAvailable")),
    )
    found = evaluated(wanted, clusters, decided=["eu"], scores=scores, sets=[cluster_set("default")])
    assert {name: (each.score, each.reason) for name, each in found.decided.items()} == {
        "eu": (152, "Steady 100, AddOn/usage/cpuNodeAvailable 52")
    }
    assert found.refused == {
        "ap": "taint maintenance:NoSelect is not tolerated",
        "dev": "claim gpu is missing, wanted In [true]",
        "edge": "in no set that is bound to namespace shop (sets: none)",
        "us": "score 48, not among the best 1",
    }


members = st.sampled_from(["default", "lab", ""])
regions = st.sampled_from(["eu", "us"])
some_taints = st.lists(
    st.builds(taint, st.sampled_from("xy"), st.sampled_from(["NoSelect", "NoSelectIfNew", "PreferNoSelect"])),
    max_size=2,
)
fleets = st.lists(st.tuples(members, regions, some_taints, st.booleans()), max_size=9)
specs: Any = st.fixed_dictionaries(
    {},
    optional={
        "numberOfClusters": st.integers(0, 6),
        "clusterSets": st.lists(st.sampled_from(["default", "lab", "global"]), max_size=2),
        "predicates": st.lists(
            st.builds(lambda region: requires(labelSelector=expression("region", "In", region)), regions), max_size=2
        ),
        "tolerations": st.lists(st.just({"key": "x", "operator": "Exists", "tolerationSeconds": 5}), max_size=1),
        "decisionStrategy": st.builds(
            lambda each: {"groupStrategy": {"clustersPerDecisionGroup": each}}, st.integers(0, 3)
        ),
        "spreadPolicy": st.just({"spreadConstraints": [{"topologyKey": "region"}]}),
        "sortBy": st.sampled_from(["ClusterName", "Score"]),
    },
)


@given(fleets, specs, st.sets(st.integers(0, 8)), st.booleans(), st.randoms())
def test_what_always_holds(fleet: list[Any], spec: Raw, decided: set[int], keep: bool, random: Any) -> None:
    clusters = [
        cluster(f"c{n}", member=member, labels={"region": region}, taints=taints, deleting=deleting)
        for n, (member, region, taints, deleting) in enumerate(fleet)
    ]
    wanted = placement(KEEP if keep else {}, **spec)
    arguments: Raw = {"decided": {f"c{n}" for n in decided}, "elsewhere": {"c1": 2, "c3": 1}, "sets": SETS}
    found = evaluated(wanted, clusters, bound=["default", "eu"], **arguments)
    chosen = names(found)
    everybody = {each["metadata"]["name"] for each in clusters}
    assert not found.misconfigured
    assert len(chosen) == len(set(chosen)) <= spec.get("numberOfClusters", len(clusters))
    assert set(chosen) <= found.scores.keys()
    assert everybody == set(chosen) | found.refused.keys()
    assert not set(chosen) & found.refused.keys()
    assert all(found.refused.values())
    assert found.satisfied.status == (bool(chosen) and spec.get("numberOfClusters", len(chosen)) == len(chosen))
    assert found.groups
    assert found.again is None or found.again > NOW
    mixed = random.sample(clusters, len(clusters))
    again = evaluated(wanted, mixed, bound=["eu", "default"], **arguments)
    assert (again, again.refused) == (found, found.refused)
