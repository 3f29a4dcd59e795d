"""Decision groups: their members and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.placing.groups import divide
from agent.ranking.placing.outcome import Decision, DecisionGroup
from agent.ranking.placing.read import managed_cluster
from agent.ranking.placing.spec import parse
from tests.ranking.placing.fleets import Raw, addon, cluster, evaluated, exact, expression, placement, score

CLUSTERS = [
    cluster("a", labels={"stage": "canary"}),
    cluster("b", labels={"stage": "canary"}, claims={"region": "eu"}),
    cluster("c", claims={"region": "eu"}),
    cluster("d"),
    cluster("e", labels={"stage": "canary"}),
]


def group(name: str, **selector: Raw) -> Raw:
    return {"groupName": name, "groupClusterSelector": selector}


def strategy(*named: Raw, each: object = None) -> Raw:
    found: Raw = {"decisionGroups": list(named)}
    if each is not None:
        found["clustersPerDecisionGroup"] = each
    return {"groupStrategy": found}


CANARY = group("canary", labelSelector={"matchLabels": {"stage": "canary"}})
EUROPE = group("europe", claimSelector=expression("region", "In", "eu"))
NOBODY = group("nobody", labelSelector={"matchLabels": {"stage": "none"}})


def shown(groups: tuple[DecisionGroup, ...]) -> list[str]:
    return [f"{each.name}:{''.join(decision.cluster for decision in each.decisions)}" for each in groups]


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        ({}, [":abcde"]),
        (strategy(), [":abcde"]),
        (strategy(CANARY), ["canary:abe", ":cd"]),
        (strategy(CANARY, EUROPE), ["canary:abe", "europe:c", ":d"]),
        (strategy(EUROPE, CANARY), ["europe:bc", "canary:ae", ":d"]),
        (strategy(NOBODY), [":abcde"]),
        (strategy(group("all")), ["all:abcde"]),
        (strategy(CANARY, each=2), ["canary:ab", "canary:e", ":cd"]),
        (strategy(each=2), [":ab", ":cd", ":e"]),
        (strategy(each=5), [":abcde"]),
        (strategy(each=9), [":abcde"]),
        (strategy(each=0), [":abcde"]),
        (strategy(each=-1), [":abcde"]),
        (strategy(each="100%"), [":abcde"]),
        (strategy(each="40%"), [":ab", ":cd", ":e"]),
        (strategy(each="41%"), [":abc", ":de"]),
        (strategy(each="1%"), [":a", ":b", ":c", ":d", ":e"]),
        (strategy(each="12.5%"), [":a", ":b", ":c", ":d", ":e"]),
        (strategy(each="0%"), [":abcde"]),
        (strategy(each="200%"), [":abcde"]),
    ],
    ids=[
        "no strategy",
        "an empty one",
        "a named one and the rest",
        "the first named one claims first",
        "in the other order",
        "a named one without members is not there",
        "nothing is left",
        "chunks keep the name",
        "chunks of 2",
        "all at once",
        "more than there are",
        "0 is one group",
        "a negative number is one group",
        "all",
        "a share",
        "a share is rounded up",
        "a small share",
        "a broken share",
        "no share is one group",
        "more than all",
    ],
)
def test_groups(wanted: Raw, want: list[str]) -> None:
    assert shown(evaluated(placement(decisionStrategy=wanted), CLUSTERS).groups) == want


def test_a_share_is_of_the_selected_clusters_in_the_arithmetic_of_the_reference() -> None:
    assert shown(evaluated(placement(decisionStrategy=strategy(each="50%"), numberOfClusters=2), CLUSTERS).groups) == [
        ":a",
        ":b",
    ]
    many = [cluster(f"c{n:02}") for n in range(25)]
    # 28 / 100 * 25 is 7.000000000000001.
    found = evaluated(placement(decisionStrategy=strategy(each="28%")), many).groups
    assert [len(each.decisions) for each in found] == [8, 8, 8, 1]


@pytest.mark.parametrize("number", [0, None])
def test_there_is_always_one_group(number: int | None) -> None:
    clusters = CLUSTERS if number == 0 else []
    wanted = placement(decisionStrategy=strategy(CANARY), **({"numberOfClusters": 0} if number == 0 else {}))
    assert shown(evaluated(wanted, clusters).groups) == [":"]


def test_decisions_are_listed_by_name_or_by_score() -> None:
    scores = [score("usage", name, {"cpu": value}) for name, value in zip("abcde", (1, 5, 9, 9, 2), strict=True)]
    rest = {"prioritizerPolicy": exact(addon("usage", "cpu")), "decisionStrategy": strategy(CANARY, each=3)}
    wanted = [placement(**rest), placement(sortBy="ClusterName", **rest), placement(sortBy="Score", **rest)]
    found = [shown(evaluated(each, CLUSTERS, scores=scores).groups) for each in wanted]
    assert found == [["canary:abe", ":cd"], ["canary:abe", ":cd"], ["canary:bea", ":cd"]]
    kept = placement({"multicluster/keep-decided": "true"}, sortBy="Score", prioritizerPolicy=rest["prioritizerPolicy"])
    assert shown(evaluated(kept, CLUSTERS, scores=scores, decided=["a"]).groups) == [":cdbea"]


@pytest.mark.parametrize("each", ["half", "5", "x%", "nan%", "%"])
def test_what_is_no_share_is_misconfigured(each: str) -> None:
    found = evaluated(placement(decisionStrategy=strategy(each=each)), CLUSTERS)
    assert (found.misconfigured, found.groups) == (f":{each} invalid type: string is not a percentage", ())


def test_a_group_selector_that_is_none_is_misconfigured_and_the_rest_stays_satisfied() -> None:
    wanted = strategy(group("bad", labelSelector=expression("stage", "Like", "x")))
    found = evaluated(placement(decisionStrategy=wanted), CLUSTERS)
    assert found.misconfigured.startswith(':"Like" is not a valid label selector operator')
    assert (found.groups, found.satisfied.status, found.satisfied.reason) == ((), True, "AllDecisionsScheduled")


@given(
    st.lists(st.sampled_from(["canary", "main", ""]), max_size=12),
    st.permutations([CANARY, EUROPE, NOBODY]),
    st.integers(0, 5) | st.sampled_from(["10%", "33%", "100%"]),
)
def test_every_decision_is_in_one_group_and_none_is_too_long(
    stages: list[str], named: list[Raw], each: int | str
) -> None:
    raw = [cluster(f"c{n:02}", labels={"stage": stage}) for n, stage in enumerate(stages)]
    clusters = {found.name: found for found in map(managed_cluster, raw)}
    decisions = [Decision(name, 0, "") for name in clusters]
    wanted = parse(placement(decisionStrategy=strategy(*named, each=each))).groups
    found = divide(wanted, decisions, clusters)
    assert sorted(decision.cluster for group in found for decision in group.decisions) == list(clusters)
    assert all(len(group.decisions) <= wanted.length(len(decisions)) for group in found)
    assert all(group.decisions for group in found) or found == (DecisionGroup("", ()),)
    for group in found:
        if group.name == "canary":
            assert all(clusters[decision.cluster].labels["stage"] == "canary" for decision in group.decisions)
