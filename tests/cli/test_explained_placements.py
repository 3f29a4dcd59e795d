"""Explanations of Placements, their rendering, and Placements read from files; without clusters."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from agent.api.names import ocm
from agent.cli.options import Failed
from agent.cli.output import as_json, as_yaml
from agent.cli.placements import rendering
from agent.cli.placements.documents import placement_in
from agent.cli.placements.explanation import PlacementExplanation, Verdict, explanation_of
from agent.cli.placements.facts import Facts
from agent.ranking.placing import read
from agent.ranking.placing.inputs import CelVerdicts

NOW = datetime(2026, 1, 1, 14, 0, tzinfo=UTC)
SOON = "2026-01-01T14:20:00Z"
SCORE = {"type": "AddOn", "addOn": {"resourceName": "resource-usage-score", "scoreName": "cpuNodeAvailable"}}
Raw = dict[str, Any]


def placement(status: Raw | None = None, **spec: Any) -> Raw:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
        "status": status or {},
    }


def conditions(satisfied: str, reason: str = "AllDecisionsScheduled", misconfigured: str = "") -> Raw:
    told = [
        {"type": "PlacementSatisfied", "status": satisfied, "reason": reason, "message": "it is said"},
        {"type": "PlacementMisconfigured", "status": str(bool(misconfigured)), "message": misconfigured},
    ]
    return {"conditions": told}


def decision(*decided: tuple[str, int, str], number: int = 1, group: str = "") -> Raw:
    items = [{"clusterName": name, "score": score, "reason": reason} for name, score, reason in decided]
    return {
        "metadata": {
            "name": f"web-decision-{number}",
            "namespace": "shop",
            "labels": {ocm.LABEL_PLACEMENT: "web", ocm.LABEL_GROUP_NAME: group},
            "managedFields": [{"time": "2026-01-01T13:00:00Z"}, {"time": "2026-01-01T14:02:11Z"}],
        },
        "status": {"decisions": items},
    }


def cluster(name: str, of: str = "default", taints: list[Raw] | None = None, claims: Raw | None = None) -> Raw:
    return {
        "metadata": {"name": name, "labels": {ocm.LABEL_CLUSTER_SET: of}},
        "spec": {"taints": taints or []},
        "status": {"clusterClaims": [{"name": key, "value": value} for key, value in (claims or {}).items()]},
    }


def score(cluster: str, value: int, until: str = "") -> Raw:
    return {
        "metadata": {"name": "resource-usage-score", "namespace": cluster},
        "status": {
            "scores": [{"name": "cpuNodeAvailable", "value": value}],
            **({"validUntil": until} if until else {}),
        },
    }


FIVE = [
    cluster("eu", claims={"gpu": "true"}),
    cluster("us", claims={"gpu": "true"}),
    cluster("ap", taints=[{"key": "maintenance", "effect": "NoSelect"}], claims={"gpu": "true"}),
    cluster("dev"),
    cluster("edge", "other"),
]
GPU = [{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [
    {"key": "gpu", "operator": "In", "values": ["true"]}]}}}]  # fmt: skip
TWO: Raw = {
    "numberOfClusters": 2,
    "predicates": GPU,
    "prioritizerPolicy": {
        "mode": "Exact",
        "configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}}, {"scoreCoordinate": SCORE}],
    },
}


def explained(
    what: Raw, *decisions: Raw, clusters: list[Raw] = FIVE, file: str = "", cel: CelVerdicts | None = None
) -> PlacementExplanation:
    sets = [{"metadata": {"name": "default"}}, {"metadata": {"name": "other"}}]
    bindings = [{"metadata": {"name": "default", "namespace": "shop"}}]
    fleet = read.fleet(clusters, sets, bindings, [score("eu", 52, SOON), score("us", 48)])
    return explanation_of(Facts(what, fleet, decisions, {}, cel or CelVerdicts(), file), NOW)


def by_name(found: PlacementExplanation) -> dict[str, Verdict]:
    return {each.cluster: each for each in found.clusters}


DECIDED = decision(
    ("eu", 152, "Steady 100, AddOn/resource-usage-score/cpuNodeAvailable 52"),
    ("us", 148, "Steady 100, AddOn/resource-usage-score/cpuNodeAvailable 48"),
)


def test_a_placement_is_told_with_its_decisions_and_the_reasons_of_all_others() -> None:
    found = explained(placement(conditions("True"), **TWO), DECIDED)
    text = rendering.as_text(found, NOW, terminal=False)
    assert text.splitlines() == [
        "Placement shop/web: 2 of 5 clusters, satisfied     decided 14:02:11",
        "  Looked at again at 14:20:00, when a toleration or a score expires",
        "",
        "CLUSTER  DECIDED  SCORE  WHY",
        "eu       yes      152    Steady 100, cpuNodeAvailable 52 (valid until 14:20:00)",
        "us       yes      148    Steady 100, cpuNodeAvailable 48",
        "ap       no       -      taint maintenance:NoSelect is not tolerated",
        "dev      no       -      claim gpu is missing, wanted In [true]",
        "edge     no       -      in no set that is bound to namespace shop (sets: other)",
    ]


def test_the_formats_say_the_same() -> None:
    found = explained(placement(conditions("True"), **TWO), DECIDED)
    assert json.loads(as_json(found)) == yaml.safe_load(as_yaml(found))
    first = json.loads(as_json(found))["clusters"][0]
    assert first["valid_until"] == {"AddOn/resource-usage-score/cpuNodeAvailable": SOON}
    for word in ("Placement shop/web", "satisfied", "maintenance"):
        assert word in rendering.as_text(found, NOW, terminal=True)


def test_what_would_be_decided_of_a_file_counts_what_is_decided_now() -> None:
    found = explained(placement(**(TWO | {"numberOfClusters": 1})), decision(("us", 0, "")), file="web.yaml")
    told = by_name(found)
    assert [name for name, each in told.items() if each.decided] == ["us"]
    assert (told["us"].score, told["eu"].score) == (148, 52)
    assert told["eu"].refusal == "score 52, not among the best 1"
    assert (found.satisfied, found.reason, found.decided_at) == (True, "AllDecisionsScheduled", "")
    first = rendering.as_text(found, NOW, terminal=False).splitlines()[0]
    assert first == "Placement shop/web of web.yaml, which is not applied: 1 of 5 clusters, satisfied"


def test_of_a_controller_that_tells_no_scores_they_are_found_out() -> None:
    found = explained(placement(conditions("True"), **TWO), decision(("eu", 0, ""), ("us", 0, "")))
    assert by_name(found)["eu"].reason == "Steady 100, AddOn/resource-usage-score/cpuNodeAvailable 52"
    assert by_name(found)["eu"].score == 152
    assert found.notes == []


def test_decisions_that_are_others_than_an_evaluation_now_are_told_as_they_are() -> None:
    found = explained(placement(conditions("True"), **TWO), decision(("eu", 0, ""), ("ap", 7, "x 7"), ("old", 0, "")))
    told = by_name(found)
    assert [name for name, each in told.items() if each.decided] == ["eu", "ap", "old"]
    assert told["ap"].refusal == "taint maintenance:NoSelect is not tolerated"
    assert told["old"].refusal == "there is no such ManagedCluster any more"
    assert told["us"].refusal == "not among its decisions"
    assert found.notes == [
        "evaluated now, it comes to eu, us: its controller decides otherwise, or has not looked at it again yet"
    ]
    text = rendering.as_text(found, NOW, terminal=False)
    assert "x 7; would not be decided now: taint maintenance:NoSelect is not tolerated" in text


def test_a_placement_that_nobody_has_evaluated_says_so() -> None:
    found = explained(placement(**TWO))
    text = rendering.as_text(found, NOW, terminal=False)
    assert text.startswith("Placement shop/web: 0 of 5 clusters, nobody has evaluated it yet\n")
    assert "Note: no controller has decided it yet; `flotilla explain` would decide eu, us" in text


def test_what_is_not_satisfied_has_reason_and_message() -> None:
    found = explained(placement(conditions("False", "NotAllDecisionsScheduled"), numberOfClusters=9), DECIDED)
    lines = rendering.as_text(found, NOW, terminal=False).splitlines()
    assert lines[0].endswith("2 of 5 clusters, not satisfied     decided 14:02:11")
    assert lines[1] == "  NotAllDecisionsScheduled: it is said"


@pytest.mark.parametrize("file", ["", "web.yaml"])
def test_of_a_misconfigured_one_the_last_decisions_stay(file: str) -> None:
    wrong = {"mode": "Other"}
    told = placement(conditions("True", misconfigured=":it is wrong"), prioritizerPolicy=wrong)
    found = explained(told, DECIDED, file=file)
    assert [name for name, each in by_name(found).items() if each.decided] == ["eu", "us"]
    lines = rendering.as_text(found, NOW, terminal=False).splitlines()
    assert "2 of 5 clusters, misconfigured" in lines[0]
    assert lines[1].startswith("  Misconfigured: :")
    assert lines[1].endswith("; the last decisions stay")


def test_decision_groups_have_a_column() -> None:
    strategy = {
        "groupStrategy": {
            "decisionGroups": [
                {
                    "groupName": "canary",
                    "groupClusterSelector": {"claimSelector": {"matchExpressions": [
                        {"key": "gpu", "operator": "Exists"}]}},
                }
            ],
        }
    }  # fmt: skip
    found = explained(placement(decisionStrategy=strategy), file="-")
    assert {name: each.group for name, each in by_name(found).items() if each.decided} == {
        "eu": "canary",
        "us": "canary",
        "dev": "",
    }
    assert "CLUSTER  DECIDED  GROUP   SCORE  WHY" in rendering.as_text(found, NOW, terminal=False)


def test_two_scores_of_one_name_are_told_apart() -> None:
    reason = "AddOn/a/x 1, AddOn/b/x 2, AddOn/b/y 3"
    found = explained(placement(conditions("True")), decision(("eu", 6, reason)))
    assert "AddOn/a/x 1, AddOn/b/x 2, y 3" in rendering.as_text(found, NOW, terminal=False)


MANIFEST = yaml.safe_dump(placement(**TWO))


def strictly(text: str, name: str = "", namespace: str = "") -> Raw:
    return placement_in(text, "web.yaml", name, namespace, "default")


def test_a_file_is_taken_as_it_is() -> None:
    assert strictly(MANIFEST) == yaml.safe_load(MANIFEST)
    other = MANIFEST.replace("name: web", "name: other").replace("  namespace: shop\n", "")
    assert strictly(f"{MANIFEST}---\n{other}", "other")["metadata"] == {"name": "other", "namespace": "default"}
    assert strictly(other, namespace="here")["metadata"]["namespace"] == "here"
    listed = yaml.safe_dump({"kind": "List", "items": [yaml.safe_load(MANIFEST)]})
    assert strictly(listed)["metadata"]["name"] == "web"


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("a: [", {}, "web.yaml is no YAML"),
        ("kind: ConfigMap", {}, "web.yaml has no Placement of apiVersion cluster.open-cluster-management.io/v1beta1"),
        (MANIFEST, {"name": "api"}, "web.yaml has no Placement api (it has: web)"),
        (f"{MANIFEST}---\n{MANIFEST}", {}, "has several Placements: name one of them"),
        (MANIFEST, {"namespace": "here"}, "metadata.namespace: is shop, and -n says here"),
        (MANIFEST.replace("v1beta1", "v1alpha1"), {}, "write cluster.open-cluster-management.io/v1beta1"),
    ],
)
def test_a_file_without_the_placement_is_refused(text: str, words: dict[str, str], says: str) -> None:
    with pytest.raises(Failed) as refused:
        strictly(text, **words)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"numberOfCluster": 2}, "spec.numberOfCluster: unknown field; did you mean numberOfClusters?"),
        ({"numberOfClusters": "2"}, "spec.numberOfClusters: must be a whole number, not '2'"),
        ({"numberOfClusters": True}, "spec.numberOfClusters: must be a whole number, not True"),
        ({"clusterSets": "default"}, "spec.clusterSets: must be a list, not 'default'"),
        ({"clusterSets": [{}]}, "spec.clusterSets[0]: must be a string, not an object"),
        ({"sortBy": "Name"}, "spec.sortBy: 'Name' is none of ClusterName, Score"),
        ({"scoreRateLimit": "1 minute"}, "spec.scoreRateLimit: '1 minute' does not look as it has to"),
        ({"tolerations": [{"key": "a b"}]}, "spec.tolerations[0].key: 'a b' does not look as it has to"),
        (
            {"spreadPolicy": {"spreadConstraints": [{"topologyKey": "zone"}]}},
            "spec.spreadPolicy.spreadConstraints[0].topologyKeyType: is required",
        ),
        (
            {"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Label"}] * 9}},
            "spec.spreadPolicy.spreadConstraints: has 9 items, 8 are allowed",
        ),
        (
            {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": SCORE, "weight": 11}]}},
            "spec.prioritizerPolicy.configurations[0].weight: must be from -10 to 10, not 11",
        ),
        (
            {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "200%"}}},
            "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup: '200%' does not look as it has to",
        ),
        (
            {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"a": 1}}}}]},
            "spec.predicates[0].requiredClusterSelector.labelSelector.matchLabels.a: must be a string, not 1",
        ),
    ],
)
def test_what_an_api_server_would_refuse_is_told_with_its_field(spec: Raw, says: str) -> None:
    with pytest.raises(Failed) as refused:
        strictly(yaml.safe_dump(placement(**spec)))
    (line,) = str(refused.value).splitlines()
    assert says in line


def test_all_errors_of_a_file_are_told_together() -> None:
    with pytest.raises(Failed) as refused:
        strictly(yaml.safe_dump(placement(sortBy="Name", extra=1, numberOfClusters=None)))
    assert len(str(refused.value).splitlines()) == 2
