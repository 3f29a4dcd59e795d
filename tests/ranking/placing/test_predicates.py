"""Predicates are alternatives; in one of them labels, claims and CEL must all hold."""

from typing import Any

import pytest

from agent.ranking.placing.evaluate import ANY_SCORE, candidates, cel_expressions, scores_used
from agent.ranking.placing.inputs import CelVerdicts
from agent.ranking.placing.read import fleet
from tests.ranking.placing.fleets import addon, cluster, evaluated, exact, expression, names, placement, requires

CLUSTERS = [
    cluster("ap", labels={"region": "ap"}),
    cluster("eu", labels={"region": "eu"}, claims={"gpu": "true"}),
    cluster("us", labels={"region": "us"}, claims={"gpu": "false", "empty": ""}),
]


@pytest.mark.parametrize(
    ("predicates", "decided"),
    [
        ([], ["ap", "eu", "us"]),
        ([{}], ["ap", "eu", "us"]),
        ([requires()], ["ap", "eu", "us"]),
        ([requires(labelSelector={"matchLabels": {"region": "eu"}})], ["eu"]),
        ([requires(labelSelector=expression("region", "In", "eu", "us"))], ["eu", "us"]),
        ([requires(labelSelector=expression("region", "NotIn", "eu"))], ["ap", "us"]),
        ([requires(labelSelector=expression("zone", "NotIn", "eu"))], ["ap", "eu", "us"]),
        ([requires(labelSelector=expression("zone", "Exists"))], []),
        ([requires(claimSelector=expression("gpu", "In", "true"))], ["eu"]),
        ([requires(claimSelector=expression("gpu", "Exists"))], ["eu", "us"]),
        ([requires(claimSelector=expression("gpu", "DoesNotExist"))], ["ap"]),
        ([requires(claimSelector=expression("empty", "Exists"))], ["us"]),
        ([requires(claimSelector={"matchLabels": {"gpu": "true"}})], ["ap", "eu", "us"]),
        ([requires(celSelector={"celExpressions": ["first"]})], ["ap", "eu"]),
        ([requires(celSelector={"celExpressions": ["first", "second"]})], ["eu"]),
        (
            [
                requires(
                    labelSelector=expression("region", "In", "eu", "us"),
                    claimSelector=expression("gpu", "In", "false"),
                )
            ],
            ["us"],
        ),
        (
            [
                requires(labelSelector={"matchLabels": {"region": "ap"}}),
                requires(claimSelector=expression("gpu", "In", "true")),
            ],
            ["ap", "eu"],
        ),
    ],
    ids=[
        "none",
        "an empty one",
        "an empty selector",
        "matchLabels",
        "In",
        "NotIn",
        "NotIn holds where the label is missing",
        "nobody matches",
        "a claim In",
        "a claim Exists",
        "a claim DoesNotExist",
        "a claim may be empty",
        "claims have no matchLabels",
        "CEL",
        "all CEL expressions",
        "labels and claims",
        "two predicates",
    ],
)
def test_who_fulfils_predicates(predicates: list[dict[str, Any]], decided: list[str]) -> None:
    cel = CelVerdicts(matches=frozenset([("first", "ap"), ("first", "eu"), ("second", "eu")]))
    assert names(evaluated(placement(predicates=predicates), CLUSTERS, cel=cel)) == decided


@pytest.mark.parametrize(
    ("predicates", "why"),
    [
        ([requires(claimSelector=expression("gpu", "In", "true"))], "claim gpu is missing, wanted In [true]"),
        ([requires(labelSelector={"matchLabels": {"region": "eu"}})], "label region is ap, wanted In [eu]"),
        ([requires(labelSelector=expression("region", "DoesNotExist"))], "label region is ap, wanted DoesNotExist"),
        ([requires(celSelector={"celExpressions": ["1 > 2"]})], "CEL expression 1 > 2 is not true"),
        (
            [
                requires(labelSelector=expression("region", "NotIn", "ap", "x")),
                requires(claimSelector=expression("gpu", "Exists")),
            ],
            "label region is ap, wanted NotIn [ap, x]; claim gpu is missing, wanted Exists",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_why_a_cluster_does_not_fulfil_them(predicates: list[dict[str, Any]], why: str) -> None:
    assert evaluated(placement(predicates=predicates), CLUSTERS).refused["ap"] == why


def test_expressions_and_candidates_are_what_cel_is_asked_about() -> None:
    wanted = placement(
        predicates=[
            requires(celSelector={"celExpressions": ["a", "b"]}),
            requires(celSelector={"celExpressions": ["b", "c"]}),
        ]
    )
    assert cel_expressions(wanted) == ("a", "b", "c")
    bindings = [{"metadata": {"namespace": "shop", "name": "default"}}]
    others = [cluster("apart", member=""), cluster("leaving", deleting=True)]
    found = fleet([*reversed(CLUSTERS), *others], [{"metadata": {"name": "default"}}], bindings, [])
    assert candidates(wanted, found) == ["ap", "eu", "us"]
    assert cel_expressions({"metadata": {}, "spec": {"predicates": "all"}}) == ()


def test_scores_that_matter_to_a_placement() -> None:
    wanted = placement(
        predicates=[requires(celSelector={"celExpressions": ['managedCluster.scores("a").size() > 0']})],
        prioritizerPolicy=exact(addon("b", "x"), addon("c", "x", 0)),
    )
    assert scores_used(wanted) == {"a", "b"}
    wanted["spec"]["predicates"] = [requires(celSelector={"celExpressions": ["managedCluster.scores(a).size() > 0"]})]
    assert scores_used(wanted) == {ANY_SCORE, "b"}
