import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.names.ocm import LABEL_GROUP_INDEX, LABEL_GROUP_NAME, LABEL_PLACEMENT
from agent.placement.placements.decide import Plan, Present, decide
from agent.ranking.placing.outcome import Decision, DecisionGroup, Outcome, Satisfied

Raw = dict[str, Any]

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SCHEDULED = Satisfied(True, "AllDecisionsScheduled", "All cluster decisions scheduled")
NOTHING = Satisfied(False, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate")
TYPO = ":incorrect builtin prioritizer: Sread"


def placement(status: Raw | None = None, name: str = "web", **spec: Any) -> Raw:
    metadata = {"namespace": "shop", "name": name, "uid": "p1", "generation": 1}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def outcome(
    groups: Mapping[str, Sequence[tuple[str, int]]] | None = None,
    *,
    satisfied: Satisfied = SCHEDULED,
    misconfigured: str = "",
    warnings: tuple[str, ...] = (),
    again: datetime | None = None,
) -> Outcome:
    made = tuple(
        DecisionGroup(name, tuple(Decision(cluster, score, f"Steady {score}") for cluster, score in decisions))
        for name, decisions in (groups or {}).items()
    )
    scores = {cluster: score for decisions in (groups or {}).values() for cluster, score in decisions}
    return Outcome(made, satisfied, misconfigured, dict, again, warnings, scores)


def written(before: Raw, present: Sequence[Present], plan: Plan) -> tuple[Raw, list[Present]]:
    """Return the Placement and its decisions after the plan was written."""
    found = {each.name: each for each in present if each not in (*plan.delete, *plan.surplus)}
    for manifest in plan.create:
        metadata = manifest["metadata"]
        owner = metadata["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Placement", before["metadata"]["name"], True)
        found[metadata["name"]] = Present(metadata["name"], "u", metadata["labels"], owner["uid"])
    for name, patch in plan.metadata:
        owner = patch.get("ownerReferences", [{"uid": found[name].owner}])[0]["uid"]
        labels = {**found[name].labels, **patch.get("labels", {})}
        found[name] = replace(found[name], labels=labels, owner=owner, owned=bool(owner))
    for name, told in plan.decisions:
        found[name] = replace(found[name], decisions=tuple(told))
    status = {key: value for key, value in {**before["status"], **plan.status}.items() if value is not None}
    return {**before, "status": status}, list(found.values())


def settled(
    before: Raw, result: Outcome, present: Sequence[Present] = (), now: datetime = NOW
) -> tuple[Raw, list[Present]]:
    """Return the status and decisions after a first evaluation; assert that the second writes nothing."""
    after, decisions = written(before, present, decide(before, result, present, now))
    plan = decide(after, result, decisions, now + timedelta(seconds=5))
    assert plan == Plan(again=result.again)
    return after, decisions


def told(decisions: Sequence[Present]) -> dict[str, list[str]]:
    return {each.name: [one["clusterName"] for one in each.decisions or ()] for each in decisions}


def condition(after: Raw, type: str) -> tuple[str, str, str]:
    (found,) = (each for each in after["status"]["conditions"] if each["type"] == type)
    return found["status"], found["reason"], found["message"]


def test_a_first_evaluation_makes_one_decision() -> None:
    before = placement()
    plan = decide(before, outcome({"": [("eu", 152), ("us", 148)]}), [], NOW)
    after, decisions = written(before, [], plan)
    assert decisions == [
        Present(
            "web-decision-1",
            "u",
            {LABEL_PLACEMENT: "web", LABEL_GROUP_INDEX: "0", LABEL_GROUP_NAME: ""},
            "p1",
            decisions=(
                {"clusterName": "eu", "reason": "Steady 152", "score": 152},
                {"clusterName": "us", "reason": "Steady 148", "score": 148},
            ),
        )
    ]
    assert after["status"]["numberOfSelectedClusters"] == 2
    assert after["status"]["decisionGroups"] == [
        {"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["web-decision-1"], "clusterCount": 2}
    ]
    assert after["status"]["lastScoreUpdateTime"] == "2026-11-23T12:00:00Z"
    assert condition(after, "PlacementSatisfied") == ("True", SCHEDULED.reason, SCHEDULED.message)
    assert condition(after, "PlacementMisconfigured") == (
        "False",
        "Succeedconfigured",
        "Placement configurations check pass",
    )
    where = "with placement web in namespace shop"
    assert plan.events == (
        ("Normal", "DecisionCreate", f"Decision web-decision-1 is created {where}"),
        ("Normal", "DecisionUpdate", f"Decision web-decision-1 is updated {where}"),
        ("Normal", "ScoreUpdate", "eu:152 us:148"),
    )


def test_what_selects_nothing_has_one_empty_decision() -> None:
    after, decisions = settled(placement(), outcome(satisfied=NOTHING))
    assert told(decisions) == {"web-decision-1": []}
    assert after["status"]["numberOfSelectedClusters"] == 0
    assert "lastScoreUpdateTime" not in after["status"]
    assert condition(after, "PlacementSatisfied")[:2] == ("False", "NoManagedClusterMatched")


@pytest.mark.parametrize(
    ("clusters", "want"), [(1, [1]), (100, [100]), (101, [100, 1]), (200, [100, 100]), (201, [100, 100, 1])]
)
def test_a_decision_has_at_most_a_hundred_clusters(clusters: int, want: list[int]) -> None:
    names = [f"c{number:03}" for number in range(clusters)]
    after, decisions = settled(placement(), outcome({"": [(name, 0) for name in names]}))
    found = told(decisions)
    assert list(found) == [f"web-decision-{number + 1}" for number in range(len(want))]
    assert [len(each) for each in found.values()] == want
    assert sorted(itertools.chain(*found.values())) == names
    assert after["status"]["decisionGroups"][0]["decisions"] == list(found)


def test_groups_are_numbered_and_their_decisions_are_numbered_through() -> None:
    groups = {"canary": [("a", 0)], "stable": [(f"s{number:03}", 0) for number in range(101)], "": [("z", 0)]}
    after, decisions = settled(placement(), outcome(groups))
    labels = [(each.labels[LABEL_GROUP_INDEX], each.labels[LABEL_GROUP_NAME]) for each in decisions]
    assert labels == [("0", "canary"), ("1", "stable"), ("1", "stable"), ("2", "")]
    assert [
        (each["decisionGroupName"], each["clusterCount"], each["decisions"])
        for each in after["status"]["decisionGroups"]
    ] == [
        ("canary", 1, ["web-decision-1"]),
        ("stable", 101, ["web-decision-2", "web-decision-3"]),
        ("", 1, ["web-decision-4"]),
    ]


def test_surplus_decisions_are_deleted_and_missing_ones_made() -> None:
    before, decisions = settled(placement(), outcome({"": [(f"c{number:03}", 0) for number in range(201)]}))
    fewer = outcome({"": [(f"c{number:03}", 0) for number in range(100)]})
    plan = decide(before, fewer, decisions, NOW)
    assert [each.name for each in plan.surplus] == ["web-decision-2", "web-decision-3"]
    assert (plan.create, plan.metadata, plan.decisions) == ((), (), ())
    assert [event.reason for event in plan.events] == ["DecisionDelete", "DecisionDelete"]

    plan = decide(before, outcome({"": [(f"c{number:03}", 0) for number in range(201)]}), decisions[1:], NOW)
    assert [each["metadata"]["name"] for each in plan.create] == ["web-decision-1"]
    assert [name for name, _ in plan.decisions] == ["web-decision-1"]
    assert plan.status == {"lastScoreUpdateTime": "2026-11-23T12:00:00Z"} or plan.status == {}


def test_labels_that_somebody_changed_are_put_right() -> None:
    result = outcome({"": [("eu", 1)]})
    before, (decision,) = settled(placement(), result)
    plan = decide(before, result, [replace(decision, labels={LABEL_GROUP_INDEX: "7", "app": "x"})], NOW)
    assert plan == Plan(
        metadata=(
            ("web-decision-1", {"labels": {LABEL_PLACEMENT: "web", LABEL_GROUP_INDEX: "0", LABEL_GROUP_NAME: ""}}),
        )
    )


def test_a_decision_without_an_owner_is_taken_over() -> None:
    result = outcome({"": [("eu", 1)]})
    before, (decision,) = settled(placement(), result)
    ((_, patch),) = decide(before, result, [replace(decision, owner="", owned=False)], NOW).metadata
    assert [each["uid"] for each in patch["ownerReferences"]] == ["p1"]


def test_decisions_of_an_earlier_placement_of_the_same_name_are_replaced() -> None:
    result = outcome({"": [("eu", 1)]})
    before, (decision,) = settled(placement(), result)
    old = replace(decision, owner="p0")
    plan = decide(before, result, [old], NOW)
    assert plan.delete == (old,)
    assert [each["metadata"]["name"] for each in plan.create] == ["web-decision-1"]


@pytest.mark.parametrize("name", ["w" * 64, "w" * 253])
def test_long_names(name: str) -> None:
    _, decisions = settled(placement(name=name), outcome({"": [(f"c{number}", 0) for number in range(150)]}))
    assert all(len(each.name) <= 253 and len(each.labels[LABEL_PLACEMENT]) <= 63 for each in decisions)
    assert len({each.name for each in decisions}) == 2


def test_a_change_of_clusters_is_written_at_once() -> None:
    before, decisions = settled(placement(), outcome({"": [("eu", 1)]}))
    plan = decide(before, outcome({"": [("us", 1)]}), decisions, NOW + timedelta(seconds=1))
    assert [name for name, _ in plan.decisions] == ["web-decision-1"]
    assert plan.status == {"lastScoreUpdateTime": "2026-11-23T12:00:01Z"}
    assert [event.reason for event in plan.events] == ["DecisionUpdate", "ScoreUpdate"]


@pytest.mark.parametrize(
    ("limit", "seconds", "want"),
    [
        (None, 59, "later"),
        (None, 60, "now"),
        ("10s", 9, "later"),
        ("10s", 10, "now"),
        ("0s", 0, "now"),
        ("nonsense", 59, "later"),
    ],
)
def test_mere_scores_are_written_as_often_as_the_placement_allows(limit: str | None, seconds: int, want: str) -> None:
    spec: Raw = {"scoreRateLimit": limit} if limit else {}
    before, decisions = settled(placement(**spec), outcome({"": [("eu", 1), ("us", 2)]}))
    now = NOW + timedelta(seconds=seconds)
    plan = decide(before, outcome({"": [("eu", 1), ("us", 3)]}), decisions, now)
    if want == "now":
        assert [name for name, _ in plan.decisions] == ["web-decision-1"]
        assert [event.reason for event in plan.events] == ["ScoreUpdate"]
        assert plan.again is None
    else:
        length = 10 if limit == "10s" else 60
        assert plan == Plan(again=NOW + timedelta(seconds=length))


def test_what_is_remembered_of_the_last_scores_counts_where_the_status_does_not_tell() -> None:
    before, decisions = settled(placement(), outcome({"": [("eu", 1)]}))
    del before["status"]["lastScoreUpdateTime"]
    other = outcome({"": [("eu", 2)]})
    assert decide(before, other, decisions, NOW + timedelta(seconds=5)).decisions
    assert not decide(before, other, decisions, NOW + timedelta(seconds=5), NOW).decisions


def test_scores_in_another_order_wait_as_well() -> None:
    before, decisions = settled(placement(), outcome({"": [("eu", 2), ("us", 1)]}))
    assert not decide(before, outcome({"": [("us", 3), ("eu", 2)]}), decisions, NOW).decisions


@pytest.mark.parametrize(
    "other",
    [
        {"canary": [("eu", 1)], "": [("us", 2)]},
        {"canary": [("us", 2)], "": [("eu", 1), ("ap", 1)]},
        {"stable": [("us", 2)], "": [("eu", 1)]},
    ],
)
def test_another_group_does_not_wait(other: dict[str, list[tuple[str, int]]]) -> None:
    before, decisions = settled(placement(), outcome({"canary": [("us", 2)], "": [("eu", 1)]}))
    plan = decide(before, outcome(other), decisions, NOW)
    assert plan.decisions or plan.metadata


def test_scores_of_a_placement_that_was_changed_do_not_wait() -> None:
    before, decisions = settled(placement(), outcome({"": [("eu", 2), ("us", 1)]}))
    before["metadata"] = {**before["metadata"], "generation": 2}
    plan = decide(before, outcome({"": [("us", 3), ("eu", 2)]}), decisions, NOW)
    assert plan.decisions
    assert {each["observedGeneration"] for each in plan.status["conditions"]} == {2}


def test_what_is_misconfigured_keeps_its_decisions() -> None:
    before, decisions = settled(placement(), outcome({"": [("eu", 2), ("us", 1)]}))
    plan = decide(before, outcome(satisfied=NOTHING, misconfigured=TYPO), decisions, NOW)
    assert (plan.delete, plan.create, plan.metadata, plan.decisions) == ((), (), (), ())
    after, kept = written(before, decisions, plan)
    assert told(kept) == {"web-decision-1": ["eu", "us"]}
    assert condition(after, "PlacementMisconfigured") == ("True", "Misconfigured", TYPO)
    assert condition(after, "PlacementSatisfied")[:2] == ("True", "AllDecisionsScheduled")
    assert after["status"]["numberOfSelectedClusters"] == 2
    assert plan.events == (
        (
            "Warning",
            "DecisionKept",
            f"The last decisions are kept (2 clusters) while the placement is misconfigured: {TYPO}",
        ),
    )
    assert decide(after, outcome(satisfied=NOTHING, misconfigured=TYPO), kept, NOW) == Plan()
    assert decide(after, outcome(satisfied=NOTHING, misconfigured="other"), kept, NOW).events


def test_what_was_misconfigured_from_the_beginning_has_an_empty_decision() -> None:
    after, decisions = settled(placement(), outcome(satisfied=NOTHING, misconfigured=TYPO))
    assert told(decisions) == {"web-decision-1": []}
    assert condition(after, "PlacementMisconfigured")[0] == "True"


def test_what_is_mended_is_decided_again() -> None:
    before, decisions = settled(placement(), outcome({"": [("eu", 2)]}))
    after, kept = written(before, decisions, decide(before, outcome(misconfigured=TYPO), decisions, NOW))
    after, _ = settled(after, outcome({"": [("us", 2)]}), kept, NOW + timedelta(minutes=2))
    assert condition(after, "PlacementMisconfigured")[0] == "False"


def test_expired_scores_are_warned_of_where_a_decision_changes() -> None:
    before, decisions = settled(placement(), outcome({"": [("eu", 2)]}))
    warning = "AddOnPlacementScores eu/usage expired in plugin AddOn/usage/cpu"
    plan = decide(before, outcome({"": [("us", 2)]}, warnings=(warning,)), decisions, NOW)
    assert plan.events[0] == (
        "Warning",
        "DecisionUpdate",
        f"Decision web-decision-1 is updated with placement web in namespace shop: {warning}",
    )
    assert decide(before, outcome({"": [("eu", 2)]}, warnings=(warning,)), decisions, NOW) == Plan()


def test_a_long_list_of_scores_is_cut() -> None:
    plan = decide(placement(), outcome({"": [(f"cluster-{number:03}", 100) for number in range(100)]}), [], NOW)
    message = plan.events[-1].message
    assert message.startswith("cluster-000:100 cluster-001:100 ")
    assert message.endswith(" ......")
    assert 900 < len(message) <= 1010


def test_the_earlier_of_two_times_counts() -> None:
    soon, late = NOW + timedelta(seconds=3), NOW + timedelta(hours=1)
    before, decisions = settled(placement(), outcome({"": [("eu", 1)]}))
    assert decide(before, outcome({"": [("eu", 2)]}, again=soon), decisions, NOW).again == soon
    assert decide(before, outcome({"": [("eu", 2)]}, again=late), decisions, NOW).again == NOW + timedelta(minutes=1)


def test_conditions_of_others_stay_and_times_move_only_with_the_status() -> None:
    foreign = {
        "type": "Other",
        "status": "True",
        "reason": "X",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    before, decisions = settled(placement({"conditions": [foreign]}), outcome({"": [("eu", 1)]}))
    assert foreign in before["status"]["conditions"]
    plan = decide(
        before,
        outcome({"": [("eu", 1)]}, satisfied=replace(SCHEDULED, message="x")),
        decisions,
        NOW + timedelta(hours=1),
    )
    times = {each["type"]: each["lastTransitionTime"] for each in plan.status["conditions"]}
    assert times["PlacementSatisfied"] == "2026-11-23T12:00:00Z"


def test_where_a_hub_keeps_nothing_of_scores_they_have_not_been_updated() -> None:
    result = outcome({"": [("eu", 10)]})
    before, present = settled(placement(), result)
    pruned = [replace(each, decisions=({"clusterName": "eu"},)) for each in present]
    plan = decide(before, result, pruned, NOW + timedelta(minutes=2))
    assert plan.decisions
    assert plan.status_after(changed=True) == {"lastScoreUpdateTime": "2026-11-23T12:02:00Z"}
    assert plan.status_after(changed=False) == {}
