"""Messages for misconfigured Placements: the reference implementation's words, or the name of the field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.placing.evaluate import candidates, cel_expressions, scores_used
from agent.ranking.placing.inputs import CelVerdicts
from agent.ranking.placing.read import fleet
from agent.ranking.placing.spec import SCORE_RATE_LIMIT, parse
from tests.ranking.placing.fleets import (
    Raw,
    addon,
    built_in,
    cluster,
    evaluated,
    exact,
    expression,
    placement,
    requires,
    taint,
)

EU = cluster("eu", taints=[taint("maintenance")])


def configured(weight: object, coordinate: object) -> Raw:
    return {"prioritizerPolicy": exact({"weight": weight, "scoreCoordinate": coordinate})}


SPREAD = {"topologyKey": "zone"}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"tolerations": [{}]}, "TaintToleration:If the key is empty, operator must be Exists."),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "TaintToleration:If the operator is Exists, the value should be empty.",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Like"}]},
            "TaintToleration:spec.tolerations[0].operator: 'Like' is none of Exists, Equal",
        ),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": "5"}]},
            "TaintToleration:spec.tolerations[0].tolerationSeconds: must be a whole number",
        ),
        ({"prioritizerPolicy": {"mode": "Most"}}, ":incorrect prioritizer policy mode: Most"),
        ({"prioritizerPolicy": exact(built_in("Magic"))}, ":incorrect builtin prioritizer: Magic"),
        (
            {"prioritizerPolicy": exact(built_in("ResourceAllocatable"))},
            ":incorrect builtin prioritizer: ResourceAllocatable",
        ),
        ({"prioritizerPolicy": {"configurations": [{"weight": 1}]}}, ":scoreCoordinate field is required"),
        (configured(1, {"type": "AddOn"}), ":addOn should not be empty"),
        (configured(1, {"type": "BuiltIn"}), ":incorrect builtin prioritizer: "),
        (
            configured(1, {"type": "AddOn", "addOn": {"resourceName": "usage"}}),
            ":spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn: resourceName and scoreName are required",
        ),
        (
            configured(11, {"builtIn": "Steady"}),
            ":spec.prioritizerPolicy.configurations[0].weight: must be from -10 to 10, not 11",
        ),
        (
            configured(1.5, {"builtIn": "Steady"}),
            ":spec.prioritizerPolicy.configurations[0].weight: must be a whole number",
        ),
        ({"numberOfClusters": -1}, ":spec.numberOfClusters: must be 0 or more, not -1"),
        ({"numberOfClusters": True}, ":spec.numberOfClusters: must be a whole number"),
        ({"clusterSets": "default"}, ":spec.clusterSets: must be a list"),
        ({"sortBy": "Size"}, ":spec.sortBy: 'Size' is none of ClusterName, Score"),
        (
            {"scoreRateLimit": "soon"},
            ":spec.scoreRateLimit: must be a duration such as 60s, 1m30s or 100ms, or a number of seconds, not 'soon'",
        ),
        (
            {"spreadPolicy": {"spreadConstraints": [{}]}},
            ":spec.spreadPolicy.spreadConstraints[0].topologyKey: is required",
        ),
        (
            {"spreadPolicy": {"spreadConstraints": [{**SPREAD, "maxSkew": 0}]}},
            ":spec.spreadPolicy.spreadConstraints[0].maxSkew: must be 1 or more, not 0",
        ),
        (
            {"spreadPolicy": {"spreadConstraints": [SPREAD, {**SPREAD, "whenUnsatisfiable": "Never"}]}},
            (
                ":spec.spreadPolicy.spreadConstraints[1].whenUnsatisfiable: "
                "'Never' is none of ScheduleAnyway, DoNotSchedule"
            ),
        ),
        (
            {"spreadPolicy": {"spreadConstraints": [{**SPREAD, "topologyKeyType": "Node"}]}},
            ":spec.spreadPolicy.spreadConstraints[0].topologyKeyType: 'Node' is none of Label, Claim",
        ),
        (
            {"predicates": [requires(labelSelector=expression("a", "Like", "b"))]},
            (
                'Predicate:"Like" is not a valid label selector operator '
                "(spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0])"
            ),
        ),
        (
            {"predicates": [requires(claimSelector=expression("a", "In"))]},
            (
                "Predicate:values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty "
                "(spec.predicates[0].requiredClusterSelector.claimSelector.matchExpressions[0])"
            ),
        ),
        (
            {"predicates": [requires(), requires(labelSelector=expression("a", "Exists", "b"))]},
            (
                'Predicate:values: Invalid value: ["b"]: values set must be empty for exists and does not exist '
                "(spec.predicates[1].requiredClusterSelector.labelSelector.matchExpressions[0])"
            ),
        ),
        ({"predicates": {"all": True}}, "Predicate:spec.predicates: must be a list"),
        (
            {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "some"}}},
            ":some invalid type: string is not a percentage",
        ),
    ],
    ids=lambda value: value.rpartition(".")[2][:40] if isinstance(value, str) else "",
)
def test_what_is_misconfigured(spec: Raw, text: str) -> None:
    wanted = placement(**{"tolerations": [{"operator": "Exists"}], **spec})
    found = evaluated(wanted, [EU])
    assert found.misconfigured == text
    assert found.groups == ()
    assert found.refused == {"eu": f"the Placement is misconfigured: {text}"}


def test_what_is_decided_is_not_refused_by_a_mistake() -> None:
    wanted = placement(prioritizerPolicy={"mode": "Most"})
    found = evaluated(wanted, [cluster("eu"), cluster("us"), cluster("far", member="")], decided=["us"])
    assert found.refused == {
        "eu": "the Placement is misconfigured: :incorrect prioritizer policy mode: Most",
        "far": "in no set that is bound to namespace shop (sets: global)",
    }
    assert (found.satisfied.status, found.satisfied.reason) == (False, "NoManagedClusterMatched")


def test_decisions_that_are_kept_are_not_refused_even_where_the_rest_would_refuse_them() -> None:
    wanted = placement(decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "some"}})
    found = evaluated(wanted, [EU, cluster("us"), cluster("left", member="")], decided=["eu", "left"])
    assert found.refused == {"us": "the Placement is misconfigured: :some invalid type: string is not a percentage"}


BAD_PREDICATE = {"predicates": [requires(labelSelector=expression("a", "Like"))]}
BAD_TOLERATION = {"tolerations": [{}]}
BAD_MODE = {"prioritizerPolicy": {"mode": "Most"}}
BAD_GROUP = {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "some"}}}
NOBODY = {"predicates": [requires(labelSelector={"matchLabels": {"no": "body"}})]}
BAD_CEL = {"predicates": [requires(celSelector={"celExpressions": ["bad"]})]}


@pytest.mark.parametrize(
    ("spec", "clusters", "prefix"),
    [
        (BAD_PREDICATE, [], ""),
        (BAD_TOLERATION, [], ""),
        (BAD_CEL, [], ""),
        (BAD_MODE, [], ":incorrect prior"),
        (BAD_GROUP, [], ":some invalid"),
        ({"numberOfClusters": -1}, [], ":spec.numberOfClusters"),
        (BAD_CEL, [EU], "Predicate:ERROR: no such field"),
        (NOBODY | BAD_TOLERATION, [EU], ""),
        (NOBODY | BAD_MODE, [EU], ":incorrect prior"),
        (BAD_PREDICATE | BAD_TOLERATION | BAD_MODE, [EU], "Predicate:"),
        (BAD_TOLERATION | BAD_MODE, [EU], "TaintToleration:"),
        (BAD_PREDICATE | BAD_GROUP, [EU], ":some invalid"),
    ],
    ids=[
        "predicates need a candidate",
        "tolerations need one",
        "CEL needs one",
        "a mode does not",
        "groups do not",
        "a number does not",
        "CEL",
        "tolerations need a cluster that matches",
        "a mode needs none",
        "predicates come first",
        "then tolerations",
        "groups go before all",
    ],
)
def test_which_mistake_is_told(spec: Raw, clusters: list[Raw], prefix: str) -> None:
    cel = CelVerdicts(errors={"bad": "ERROR: no such field"})
    found = evaluated(placement(**spec), clusters, cel=cel).misconfigured
    assert found.startswith(prefix)
    assert bool(found) == bool(prefix)


@pytest.mark.parametrize(
    ("limit", "seconds"), [(None, SCORE_RATE_LIMIT), ("", 60), ("0s", 0), ("5m", 300), ("1m30s", 90)]
)
def test_score_rate_limit(limit: str | None, seconds: float) -> None:
    wanted = placement() if limit is None else placement(scoreRateLimit=limit)
    assert parse(wanted).policy.score_rate_limit == seconds


def test_keep_decided_must_say_true() -> None:
    said = [{}, {"multicluster/keep-decided": "false"}, {"multicluster/keep-decided": "true"}]
    assert [parse(placement(each)).keep_decided for each in said] == [False, False, True]


KEYS = [
    "clusterSets",
    "numberOfClusters",
    "predicates",
    "requiredClusterSelector",
    "labelSelector",
    "claimSelector",
    "celSelector",
    "celExpressions",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "tolerations",
    "value",
    "effect",
    "tolerationSeconds",
    "prioritizerPolicy",
    "mode",
    "configurations",
    "scoreCoordinate",
    "type",
    "builtIn",
    "addOn",
    "resourceName",
    "scoreName",
    "weight",
    "spreadPolicy",
    "spreadConstraints",
    "topologyKey",
    "maxSkew",
    "whenUnsatisfiable",
    "decisionStrategy",
    "groupStrategy",
    "decisionGroups",
    "groupName",
    "groupClusterSelector",
    "clustersPerDecisionGroup",
    "sortBy",
    "scoreRateLimit",
]
WORDS = ("", "In", "Exists", "Exact", "AddOn", "Steady", "zone", "50%", "1m", "eu")
leaves: Any = st.none() | st.booleans() | st.integers(-3, 200) | st.sampled_from(WORDS) | st.floats()
junk: Any = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), junk, max_size=6) | junk, junk)
def test_no_placement_raises_anything(spec: Any, metadata: Any) -> None:
    for wanted in ({"spec": spec, "metadata": {"namespace": "shop"}}, {"spec": spec, "metadata": metadata}):
        evaluated(wanted, [EU, cluster("us")])
        cel_expressions(wanted)
        scores_used(wanted)
        candidates(wanted, fleet([EU], [], [], []))


def test_an_addon_with_weight_0_need_not_be_right() -> None:
    wanted = placement(prioritizerPolicy=exact({"weight": 0, "scoreCoordinate": {"type": "AddOn"}}, addon("a", "b", 0)))
    assert (parse(wanted).flaws, parse(wanted).policy.prioritizers) == ({}, ())
