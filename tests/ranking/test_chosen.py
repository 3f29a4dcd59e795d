"""Targets that annotations name, as a filter and an order of the scheduler."""

from typing import Any

import pytest

from agent.model.claimfilter import combine as asking
from agent.model.claimfilter import level
from agent.model.targetchoice import Level, combine
from agent.ranking.explain import explain
from agent.ranking.placed import Decided, Placed, Reference, shares
from agent.ranking.rank import Ranking
from agent.ranking.snapshot import PodInfo, TargetInfo
from tests.ranking.pods_and_targets import free, pod_info, ranked, target_info, telling

US, EU, AP = (target_info(title, managed_cluster=title) for title in ("us", "eu", "ap"))


def choosing(targets: str | None, allowed: str | None = None, **wanted: Any) -> PodInfo:
    return pod_info(**wanted).choosing(combine([Level("Deployment web", targets, allowed)]))


def titles(ranking: Ranking) -> list[str]:
    return [each.title for each in ranking.order]


def told(ranking: Ranking) -> dict[str, tuple[str, str]]:
    return {target.title: tuple(rejection) for target, rejection in ranking.rejected}


def test_a_pod_goes_only_where_it_may() -> None:
    ranking = ranked(choosing("us,ap", "!ap"), EU, US, AP)
    assert titles(ranking) == ["us"]
    assert told(ranking) == {
        "eu": ("NotChosen", "not in targets of Deployment web (us,ap)"),
        "ap": ("NotChosen", "not in allowed-targets of Deployment web (!ap)"),
    }


def test_a_pod_of_which_nobody_says_anything_goes_anywhere() -> None:
    wanted = pod_info()
    assert wanted.choosing(None) is wanted
    assert len(ranked(wanted, EU, US, AP).order) == 3


@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize(
    ("targets", "order"),
    [
        ("ap > us > eu", ["ap", "us", "eu"]),
        ("us > eu", ["us", "eu"]),
        ("eu > !eu,!us", ["eu", "ap"]),
    ],
)
def test_groups_come_in_their_order_whatever_the_scores(targets: str, order: list[str], turn: int) -> None:
    best = target_info("eu", weight=100)
    slow = target_info("ap", slow=True)
    assert titles(ranked(choosing(targets), best, US, slow, turn=turn)) == order


def test_within_a_group_scores_decide() -> None:
    assert titles(ranked(choosing("us > eu,ap"), EU, target_info("ap", weight=100), US)) == ["us", "ap", "eu"]


def test_what_was_tried_comes_last_whatever_its_group() -> None:
    ranking = ranked(choosing("us > eu > ap").after({US.node_name: "full"}), US, EU, AP)
    assert titles(ranking) == ["eu", "ap", "us"]
    assert ranking.untried == 2


def test_merit_is_the_group_before_the_total() -> None:
    ranking = ranked(choosing("us > eu"), US, target_info("eu", weight=100))
    assert max(ranking.order, key=ranking.total).title == "eu"
    assert max(ranking.order, key=ranking.merit).title == "us"


def full(title: str) -> TargetInfo:
    return target_info(title, shapes=(telling(free("0")),))


def test_where_no_target_has_room_it_waits_in_the_preferred_one() -> None:
    wanted = choosing("ap > eu,us", cpu="1")
    ranking = ranked(wanted, full("eu"), full("us"), full("ap"))
    assert not ranking.order
    assert ranking.pending[0].title == "ap"


def test_a_placement_counts_as_well() -> None:
    placed = Placed(Reference("web"), shares([Decided("us"), Decided("ap")]))
    ranking = ranked(choosing("us,eu").following(placed), US, EU, AP)
    assert titles(ranking) == ["us"]
    assert {title: reason for title, (reason, _) in told(ranking).items()} == {"eu": "NotPlaced", "ap": "NotChosen"}


def test_why_a_pod_waits_is_told_with_who_says_so() -> None:
    ranking = ranked(choosing("mars"), US, EU)
    message = explain(ranking, {}, {})
    assert message.startswith("0/2 targets are available: ")
    assert message.count("not in targets of Deployment web (mars)") >= 1


def test_what_cannot_be_read_sends_a_pod_nowhere() -> None:
    ranking = ranked(choosing("us eu"), US, EU)
    assert not ranking.order
    assert {reason for reason, _ in told(ranking).values()} == {"NotChosen"}


def test_a_pod_that_asks_for_a_claim_goes_only_where_the_cluster_has_it() -> None:
    claim = "p2code.filter.region"
    wanted = pod_info().claiming(asking((level("namespace shop", {claim: "south"}),)))
    south, north = target_info("us", claims={claim: "south"}), target_info("eu", claims={claim: "north"})
    ranking = ranked(wanted, north, south, target_info("ap", claims={}), target_info("sa"))
    assert titles(ranking) == ["us"]
    assert told(ranking) == {
        "eu": ("NotClaimed", f"its claim {claim} is north, and is to be south for namespace shop"),
        "ap": ("NotClaimed", f"its cluster has no claim {claim}, which is to be south for namespace shop"),
        "sa": ("NotClaimed", "which claims its cluster has is not known"),
    }
    assert titles(ranked(wanted, target_info("eu", claims={claim: "south"}))) == ["eu"]
    assert pod_info().claiming(None).claims is None
