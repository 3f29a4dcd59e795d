"""spreadPolicy: clusters are picked one after another, so that no domain gets too many."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ranking.placing.fleets import Raw, addon, built_in, cluster, evaluated, exact, names, placement, score

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def constraint(key: str = "zone", when: str | None = HARD, skew: int | None = None, type: str | None = None) -> Raw:
    found: Raw = {"topologyKey": key}
    for field, value in (("whenUnsatisfiable", when), ("maxSkew", skew), ("topologyKeyType", type)):
        if value is not None:
            found[field] = value
    return found


def zones(layout: str) -> list[Raw]:
    """Return clusters `a1 a2 b1` in zones a and b."""
    return [cluster(name, labels={"zone": name[0], "side": name[-1]}) for name in layout.split()]


def spread(*constraints: Raw, number: int | None = None, **rest: object) -> Raw:
    wanted: Raw = {"spreadPolicy": {"spreadConstraints": list(constraints)}, **rest}
    return placement(**wanted) if number is None else placement(numberOfClusters=number, **wanted)


@pytest.mark.parametrize(
    ("constraints", "layout", "number", "decided"),
    [
        ([constraint()], "a1 a2 a3 b1 b2 c1", 3, "a1 b1 c1"),
        ([constraint()], "a1 a2 a3 b1 b2 c1", 4, "a1 a2 b1 c1"),
        ([constraint()], "a1 a2 a3 b1", None, "a1 a2 b1"),
        ([constraint()], "a1 a2 a3 b1", 4, "a1 a2 b1"),
        ([constraint(skew=2)], "a1 a2 a3 b1", 3, "a1 a2 b1"),
        ([constraint(skew=2)], "a1 a2 a3 b1", None, "a1 a2 a3 b1"),
        ([constraint(skew=2)], "a1 a2 a3 b1 b2", 2, "a1 a2"),
        ([constraint(when=SOFT)], "a1 a2 a3 b1", None, "a1 a2 a3 b1"),
        ([constraint(when=SOFT)], "a1 a2 a3 b1", 2, "a1 b1"),
        ([constraint(when=SOFT)], "a1 a2 a3 b1", 3, "a1 a2 b1"),
        ([constraint(when=None)], "a1 a2 b1", 2, "a1 b1"),
        ([constraint(when=SOFT, skew=2)], "a1 a2 a3 b1", 2, "a1 a2"),
        ([constraint(), constraint("side")], "a1 a2 b1 b2", 2, "a1 b2"),
        ([constraint(when=SOFT), constraint("side", SOFT)], "a1 b1 b2", 2, "a1 b2"),
        ([constraint("side", SOFT), constraint(when=SOFT)], "a1 a2 b1 b3", 3, "a1 a2 b3"),
        ([constraint("name")], "a1 b1", None, ""),
        ([constraint("name", SOFT)], "a1 b1", None, "a1 b1"),
        ([], "a1 a2 b1", 2, "a1 a2"),
    ],
    ids=[
        "one of each",
        "then the best again",
        "all that fit",
        "fewer than wanted",
        "a skew of 2 with one left out",
        "a skew of 2",
        "a skew of 2 follows the order of scores",
        "ScheduleAnyway takes all",
        "ScheduleAnyway prefers the emptier",
        "ScheduleAnyway goes on",
        "ScheduleAnyway is the default",
        "ScheduleAnyway within maxSkew",
        "two hard ones",
        "two soft ones",
        "the first soft one counts more",
        "a hard one that no cluster has the key of",
        "a soft one that no cluster has the key of",
        "none",
    ],
)
def test_who_is_picked(constraints: list[Raw], layout: str, number: int | None, decided: str) -> None:
    assert names(evaluated(spread(*constraints, number=number), zones(layout))) == decided.split()


def test_the_best_of_each_domain_is_picked() -> None:
    wanted = spread(constraint(), number=2, prioritizerPolicy=exact(addon("usage", "cpu")))
    scores = [score("usage", name, {"cpu": value}) for name, value in (("a2", 60), ("a3", 90), ("b1", 5), ("b2", 9))]
    assert names(evaluated(wanted, zones("a1 a2 a3 b1 b2"), scores=scores)) == ["a3", "b2"]


def test_clusters_without_the_key_are_out_where_it_must_be_kept() -> None:
    found = evaluated(spread(constraint()), [*zones("a1"), cluster("bare")])
    assert (names(found), found.refused) == (["a1"], {"bare": "label zone is missing, wanted by spreadPolicy"})
    assert names(evaluated(spread(constraint(when=SOFT), number=1), [cluster("a"), *zones("z1")])) == ["z1"]


def test_a_claim_can_be_the_key() -> None:
    clusters = [cluster(name, claims={"zone": name[0]}, labels={"zone": "same"}) for name in ("a1", "a2", "b1")]
    assert names(evaluated(spread(constraint(type="Claim"), number=2), clusters)) == ["a1", "b1"]
    assert names(evaluated(spread(constraint(type="Label", skew=2), number=2), clusters)) == ["a1", "a2"]
    found = evaluated(spread(constraint(type="Claim")), zones("a1"))
    assert found.refused == {"a1": "claim zone is missing, wanted by spreadPolicy"}


def test_why_a_cluster_was_not_picked() -> None:
    found = evaluated(spread(constraint(), number=4), zones("a1 a2 a3 b1"))
    assert found.refused == {"a3": "label zone a would have 3 clusters, another has 1: more than maxSkew 1"}
    assert found.satisfied.message == "1 cluster decisions unscheduled"
    found = evaluated(spread(constraint(), number=2), zones("a1 a2 a3 b1"))
    assert set(found.refused.values()) == {"score 100, not among the best 2"}


def test_without_a_number_what_spread_leaves_out_does_not_make_it_unsatisfied() -> None:
    assert evaluated(spread(constraint()), zones("a1 a2 a3 b1")).satisfied.reason == "AllDecisionsScheduled"


@pytest.mark.parametrize(
    ("constraints", "layout", "want"),
    [
        ([constraint()], "a1 a2 a3 b1", {"a1": 100, "a2": 0, "a3": -100, "b1": 100}),
        ([constraint(when=SOFT)], "a1 a2 b1 b2", {"a1": 100, "a2": -100, "b1": 100, "b2": -100}),
        ([constraint()], "a1 b1", {"a1": 100, "b1": 100}),
        ([constraint("name", SOFT)], "a1 b1", {"a1": -100, "b1": -100}),
        ([constraint(), constraint("side")], "a1 a2 b1", {"a1": 100, "a2": 0, "b1": 0}),
        ([], "a1 b1", {"a1": 0, "b1": 0}),
    ],
    ids=["the last of the largest", "two and two", "alone in their domains", "without the key", "the mean", "nothing"],
)
def test_the_prioritizer_spread(constraints: list[Raw], layout: str, want: dict[str, int]) -> None:
    found = evaluated(spread(*constraints, prioritizerPolicy=exact(built_in("Spread"))), zones(layout))
    assert found.scores == want


def test_the_prioritizer_spread_goes_by_what_the_others_say() -> None:
    wanted = spread(
        constraint(when=SOFT, skew=9), number=2, prioritizerPolicy=exact(built_in("Spread", 2), addon("usage", "cpu"))
    )
    scores = [score("usage", name, {"cpu": value}) for name, value in (("a1", 10), ("a2", 50), ("b1", 5))]
    found = evaluated(wanted, zones("a1 a2 b1"), scores=scores)
    assert names(found) == ["a2", "b1"]
    assert found.decided["a2"].reason == "AddOn/usage/cpu 50, Spread 100 x 2"
    assert found.scores == {"a1": -190, "a2": 250, "b1": 205}


layouts = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123")), min_size=1, max_size=14)


@given(layouts, st.integers(1, 3), st.one_of(st.none(), st.integers(0, 14)))
def test_no_pick_ever_breaks_a_hard_constraint(layout: list[tuple[str, str]], skew: int, number: int | None) -> None:
    clusters = [cluster(f"c{n:02}", labels={"zone": zone, "side": side}) for n, (zone, side) in enumerate(layout)]
    wanted = spread(constraint(skew=skew), constraint("side", SOFT), number=number)
    found = names(evaluated(wanted, clusters))
    counts = Counter(layout[int(name[1:])][0] for name in found)
    for zone in {zone for zone, _ in layout}:
        counts.setdefault(zone, 0)
    assert max(counts.values()) - min(counts.values()) <= skew
    if number is None or len(found) < number:
        left = {zone for n, (zone, _) in enumerate(layout) if f"c{n:02}" not in found}
        assert all(counts[zone] + 1 - min(counts.values()) > skew for zone in left)
