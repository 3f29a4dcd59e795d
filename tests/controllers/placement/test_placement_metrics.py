"""Metrics of Placements: their clusters, and the scores of a few."""

from agent.base.metrics import REGISTRY
from agent.placement.placements.decide import Present, scored
from agent.placement.placements.metrics import MEASURED, SCORED
from agent.ranking.placing.outcome import Decision, DecisionGroup, Outcome, Satisfied

KEY = ("shop", "measured")


def outcome(*decided: str, misconfigured: str = "") -> Outcome:
    decisions = tuple(Decision(name, 7, "") for name in decided)
    return Outcome((DecisionGroup("", decisions),), Satisfied(True, "", ""), misconfigured, dict, None)


def clusters() -> float | None:
    return REGISTRY.get_sample_value(
        "flotilla_placement_clusters", dict(zip(("namespace", "placement"), KEY, strict=True))
    )


def score(cluster: str) -> float | None:
    labels = {"namespace": KEY[0], "placement": KEY[1], "cluster": cluster}
    return REGISTRY.get_sample_value("flotilla_placement_score", labels)


def test_what_is_decided_is_measured_as_long_as_it_is() -> None:
    MEASURED.note(KEY, outcome("eu", "us"), {})
    assert (clusters(), score("eu"), score("us")) == (2, 7, 7)
    MEASURED.note(KEY, outcome("eu"), {"eu": 7, "us": 7})
    assert (clusters(), score("eu"), score("us")) == (1, 7, None)
    MEASURED.note(KEY, outcome(misconfigured=":no"), {"eu": 7})
    assert (clusters(), score("eu")) == (1, 7), "the last decisions stay"
    MEASURED.forget(KEY)
    assert (clusters(), score("eu")) == (None, None)


def test_decisions_that_are_kept_are_measured_by_an_agent_that_has_not_made_them() -> None:
    theirs = {"clusterName": "us", "score": 3}
    present = [
        Present("a", owner="one", decisions=({"clusterName": "eu", "score": 7}, {"clusterName": "ap"}, {"score": 1})),
        Present("b", owner="another", decisions=(theirs,)),
        Present("c", owner="one"),
    ]
    kept = scored(present, "one")
    assert kept == {"eu": 7, "ap": 0}
    MEASURED.note(KEY, outcome(misconfigured=":no"), kept)
    assert (clusters(), score("eu"), score("ap")) == (2, 7, 0)
    MEASURED.forget(KEY)


def test_scores_of_many_clusters_are_not_told() -> None:
    MEASURED.note(KEY, outcome("eu"), {})
    MEASURED.note(KEY, outcome("eu", *(f"c{number}" for number in range(SCORED))), {})
    assert (clusters(), score("eu")) == (SCORED + 1, None)
    MEASURED.forget(KEY)
