"""Decisions of a Placement as a filter and a score of the scheduler."""

from typing import Any

import pytest

from agent.ranking.explain import explain, table
from agent.ranking.placed import Decided, Placed, Reference, misplaced, reasoned, shares
from agent.ranking.rank import Ranking, rank
from agent.ranking.scores import Weights
from agent.ranking.snapshot import PodInfo, TargetInfo
from agent.ranking.usage import Usages
from tests.ranking.pods_and_targets import WEIGHTS, pod_info, ranked, target_info, usages


def target(title: str, **changes: Any) -> TargetInfo:
    """Return a target whose ManagedCluster has the same name."""
    return target_info(title, **{"managed_cluster": title} | changes)


EU, US, AP = target("eu"), target("us"), target("ap")


def placed(*clusters: str, why: str = "", group: str = "", known: bool = True, **scores: int) -> Placed:
    decided = [*(Decided(cluster) for cluster in clusters), *(Decided(*each) for each in scores.items())]
    return Placed(Reference("web", group), shares(decided), why, known)


def following(found: Placed, **wanted: Any) -> PodInfo:
    return pod_info(**wanted).following(found)


def told(ranking: Ranking) -> dict[str, tuple[str, str]]:
    return {target.title: (rejection.reason, rejection.message) for target, rejection in ranking.rejected}


def test_a_pod_goes_only_where_its_placement_has_decided() -> None:
    ranking = ranked(following(placed("us", "ap")), EU, US, AP)
    assert {each.title for each in ranking.order} == {"us", "ap"}
    assert told(ranking) == {"eu": ("NotPlaced", "not in Placement web: not among its decisions")}


def test_two_targets_of_one_cluster_are_both_decided_for() -> None:
    again = target("us-again", managed_cluster="us")
    assert {each.title for each in ranked(following(placed("us")), EU, US, again).order} == {"us", "us-again"}


def test_a_target_without_a_managed_cluster_is_in_no_decision() -> None:
    ranking = ranked(following(placed("eu")), EU, target("us", managed_cluster=""))
    assert told(ranking)["us"][1] == "not in Placement web: no ManagedCluster stands for this target"


def test_a_pod_without_a_placement_goes_anywhere() -> None:
    wanted = pod_info()
    assert wanted.following(None) is wanted
    assert len(ranked(wanted, EU, US, AP).order) == 3


def test_without_decisions_every_target_says_why() -> None:
    ranking = ranked(following(placed(why="it does not exist", known=False)), EU, target("us", managed_cluster=""))
    assert ranking.order == ()
    assert {message for _, message in told(ranking).values()} == {"not in Placement web: it does not exist"}


def test_a_group_is_named() -> None:
    ranking = ranked(following(placed("us", group="canary")), EU)
    assert told(ranking)["eu"][1] == "not in Placement web, group canary: not among its decisions"


def test_what_a_placement_refuses_counts_for_no_other_filter_and_the_rest_does() -> None:
    wanted = following(placed("us", "ap")).beside({"data": AP.node_name})
    ranking = ranked(wanted, EU, US, AP)
    assert [each.title for each in ranking.order] == ["ap"]
    assert {title: reason for title, (reason, _) in told(ranking).items()} == {
        "eu": "NotPlaced",
        "us": "VolumeElsewhere",
    }


@pytest.mark.parametrize(
    ("scores", "want"),
    [
        ({"eu": 152, "us": 148, "ap": 150}, {"eu": 100.0, "us": 0.0, "ap": 50.0}),
        ({"eu": -100, "us": 300}, {"eu": 0.0, "us": 100.0}),
        ({"eu": 7, "us": 7}, {"eu": 50.0, "us": 50.0}),
        ({"eu": 7}, {"eu": 50.0}),
        ({"eu": None, "us": None}, {"eu": 50.0, "us": 50.0}),
        ({"eu": 10, "us": None, "ap": 20}, {"eu": 0.0, "us": 50.0, "ap": 100.0}),
        ({}, {}),
    ],
    ids=["between", "negative", "equal", "one", "untold", "one untold", "none"],
)
def test_scores_of_decisions_are_shares_between_lowest_and_highest(
    scores: dict[str, int | None], want: dict[str, float]
) -> None:
    assert shares(Decided(*each) for each in scores.items()) == want


def test_the_score_of_a_decision_counts_more_than_the_weight_of_a_target_and_less_than_a_preferred_region() -> None:
    decided = placed(eu=10, us=20)
    heavy = target("eu", weight=100)
    assert ranked(following(decided), heavy, US).order[0] is US
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/region", "operator": "In", "values": ["eu"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    wanted = following(decided, proxy={"affinity": {"nodeAffinity": preferred}})
    assert ranked(wanted, EU, US).order[0] is EU
    assert ranked(following(decided), heavy, US, weights=Weights(placement=0.0)).order[0] is heavy


def test_load_counts_where_decisions_are_equal() -> None:
    assert [each.title for each in ranked(following(placed("eu", "us")), EU, US, held=usages(eu=3)).order] == [
        "us",
        "eu",
    ]


def test_the_table_of_explain_shows_the_score_and_why_not() -> None:
    asks = following(placed(eu=10, us=20))
    rows = table(ranked(asks, EU, US, AP), asks)
    assert [(row.target, row.scores.get("placement")) for row in rows] == [("us", 100.0), ("eu", 0.0), ("ap", None)]
    assert rows[0].total is not None
    assert rows[1].total is not None
    assert rows[0].total - rows[1].total == 100 * WEIGHTS.placement


def test_pods_of_one_placement_share_what_was_found_out_and_a_new_decision_is_seen_at_once() -> None:
    targets, held, wanted = (EU, US, AP), Usages(), pod_info()
    first, second = placed("eu"), placed("us")
    for found, want in ((first, EU), (second, US), (first, EU)):
        assert rank(wanted.following(found), targets, held, WEIGHTS).order == (want,)
    assert first.divide(targets) is first.divide(targets)
    moved = (target("eu", managed_cluster="other"), US, AP)
    assert rank(wanted.following(first), moved, held, WEIGHTS).order == ()


def test_what_is_known_of_each_cluster_is_told() -> None:
    found = placed("us")
    ranking = ranked(following(found), EU, US, AP, target("lost", ready=False, state="lost", managed_cluster="us"))
    reasons = {"eu": "taint maintenance:NoSelect is not tolerated", "us": "never told"}
    detailed = Ranking(ranking.order, ranking.untried, reasoned(ranking.rejected, found, reasons))
    assert explain(detailed, {}, {US.node_name: "full"}) == (
        "0/4 targets are available: ap: not in Placement web: not among its decisions,"
        " eu: not in Placement web: taint maintenance:NoSelect is not tolerated, lost: lost, us: full"
    )


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (None, ""),
        (placed("eu", "us"), ""),
        (placed("us"), "no longer in Placement web"),
        (placed("us", group="canary"), "no longer in Placement web, group canary"),
        (placed(why="it decides for no cluster"), "no longer in Placement web"),
        (placed(why="it does not exist", known=False), ""),
    ],
    ids=["no Placement", "decided", "others decided", "in another group", "none decided", "nothing known"],
)
def test_a_pod_is_misplaced_only_where_a_decision_says_so(found: Placed | None, want: str) -> None:
    assert misplaced(found, EU) == want
