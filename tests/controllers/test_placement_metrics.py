"""What is measured of Placements: their clusters, and the scores of a few."""

from agent.base.metrics import REGISTRY
from agent.controllers.placement.metrics import MEASURED, SCORED
from agent.scheduling.placing.outcome import Decision, DecisionGroup, Outcome, Satisfied

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
    MEASURED.note(KEY, outcome("eu", "us"))
    assert (clusters(), score("eu"), score("us")) == (2, 7, 7)
    MEASURED.note(KEY, outcome("eu"))
    assert (clusters(), score("eu"), score("us")) == (1, 7, None)
    MEASURED.note(KEY, outcome(misconfigured=":no"))
    assert (clusters(), score("eu")) == (1, 7), "the last decisions stay"
    MEASURED.forget(KEY)
    assert (clusters(), score("eu")) == (None, None)


def test_scores_of_many_clusters_are_not_told() -> None:
    MEASURED.note(KEY, outcome("eu"))
    MEASURED.note(KEY, outcome("eu", *(f"c{number}" for number in range(SCORED))))
    assert (clusters(), score("eu")) == (SCORED + 1, None)
    MEASURED.forget(KEY)
