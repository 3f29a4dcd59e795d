"""Parsing of Open Cluster Management's objects; broken ones raise no exception."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agent.ranking.placing import read
from agent.ranking.placing.inputs import ClusterTaint, Score
from tests.ranking.placing.fleets import NOW, cluster, cluster_set, expression, score

BROKEN: list[Any] = [
    {},
    {"metadata": None, "spec": None, "status": None},
    {"metadata": [], "spec": "x", "status": 3},
    {"metadata": {"name": 5, "labels": [1]}, "spec": {"taints": {}, "clusterSelector": []}, "status": {"scores": 1}},
    {
        "metadata": {"labels": {"a": None}},
        "spec": {"taints": [None, {"key": 1, "timeAdded": "soon"}], "clusterSelector": {"selectorType": 7}},
        "status": {
            "allocatable": {"cpu": "much", "memory": None},
            "clusterClaims": [3, {"name": None}],
            "decisions": [None, {}, {"clusterName": 4}],
            "scores": [None, {"name": "a"}, {"name": "b", "value": "high"}],
            "validUntil": "2026-01-01T00:00:00",
        },
    },
]


def test_a_managed_cluster_is_read() -> None:
    found = read.managed_cluster(
        {
            "metadata": {"name": "eu", "labels": {"region": "eu"}},
            "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSelect", "timeAdded": "2026-11-23T12:00:00Z"}]},
            "status": {
                "allocatable": {"cpu": "3500m", "memory": "1Ki"},
                "capacity": {"cpu": "4"},
                "clusterClaims": [{"name": "gpu", "value": "no"}, {"name": "gpu", "value": "true"}],
            },
        }
    )
    assert (found.name, found.labels, found.claims, found.deleting) == ("eu", {"region": "eu"}, {"gpu": "true"}, False)
    assert found.taints == (ClusterTaint("a", "b", "NoSelect", NOW),)
    assert found.allocatable == {"cpu": 3.5}, "nor is there anything of what it tells no capacity of"
    assert read.managed_cluster(cluster("eu", deleting=True)).deleting


@pytest.mark.parametrize("raw", BROKEN)
def test_what_cannot_be_read_is_not_there(raw: Any) -> None:
    found = read.managed_cluster(raw)
    assert (found.allocatable, found.labels) == ({}, {})
    assert all(each.added is None for each in found.taints)
    assert read.scores(raw) == {}
    assert read.decided(raw) == ()
    assert isinstance(read.key(raw), tuple)
    read.cluster_set(raw)
    read.fleet([raw], [raw], [raw], [raw])


@pytest.mark.parametrize(
    ("raw", "members"),
    [
        (cluster_set("red"), {"labelled"}),
        ({"metadata": {"name": "red"}}, {"labelled"}),
        (cluster_set("red", {}), {"labelled", "eu", "bare"}),
        (cluster_set("red", {"matchLabels": {"region": "eu"}}), {"eu"}),
        (cluster_set("red", expression("region", "NotIn", "eu")), {"labelled", "bare"}),
        (cluster_set("red", expression("region", "Like", "eu")), set()),
        (cluster_set("red", expression("region", "In")), set()),
        ({"metadata": {"name": "red"}, "spec": {"clusterSelector": {"selectorType": "LabelSelector"}}}, set()),
        ({"metadata": {"name": "red"}, "spec": {"clusterSelector": {"selectorType": "ByName"}}}, set()),
    ],
    ids=[
        "by the label of sets",
        "by that label unless it says otherwise",
        "an empty selector has all",
        "by labels",
        "NotIn has those without the label",
        "no operator",
        "In without values",
        "no selector at all",
        "an unknown type",
    ],
)
def test_members_of_a_set(raw: dict[str, Any], members: set[str]) -> None:
    clusters = [
        cluster("labelled", member="red"),
        cluster("eu", member="", labels={"region": "eu"}),
        cluster("bare", member="blue"),
    ]
    fleet = read.fleet(clusters, [raw], [], [])
    found = {name for name, sets in fleet.sets_of.items() if "red" in sets}
    assert found == members == {name for name in fleet.clusters if fleet.sets["red"].has(fleet.clusters[name])}


def test_scores_are_read_with_the_time_at_which_they_expire() -> None:
    until = datetime(2026, 11, 23, 12, 1, tzinfo=UTC)
    assert read.scores(score("usage", "eu", {"cpu": 5}, valid=60)) == {"cpu": Score(5, until)}
    assert read.scores(score("usage", "eu", {"cpu": -5})) == {"cpu": Score(-5)}


def test_a_decision_names_its_clusters() -> None:
    assert read.decided({"status": {"decisions": [{"clusterName": "eu", "reason": ""}, {"clusterName": "us"}]}}) == (
        "eu",
        "us",
    )
