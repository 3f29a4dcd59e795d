"""Placements that are evaluated over one fleet share results, which changes no outcome."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.placing import read
from agent.ranking.placing.evaluate import evaluate
from agent.ranking.placing.inputs import CelVerdicts, PlacementInputs
from tests.ranking.placing.fleets import (
    NOW,
    SHOP,
    Raw,
    addon,
    built_in,
    cluster,
    cluster_set,
    exact,
    expression,
    placement,
    requires,
    score,
    taint,
)

REGIONS = ("eu", "us", "")
prioritizers = st.sampled_from(
    [built_in("Balance"), built_in("Steady", 2), built_in("Spread"), built_in("ResourceAllocatableCPU", -1)]
    + [addon("usage", name, weight) for name, weight in (("cpu", 1), ("memory", 3))]
)
predicates = st.sampled_from(
    [requires(labelSelector=expression("region", "In", "eu")), requires(celSelector={"celExpressions": ["even"]})]
)
specs: Any = st.fixed_dictionaries(
    {},
    optional={
        "numberOfClusters": st.integers(0, 6),
        "clusterSets": st.lists(st.sampled_from(["default", "lab"]), max_size=2),
        "predicates": st.lists(predicates, max_size=2),
        "tolerations": st.lists(st.just({"key": "x", "operator": "Exists", "tolerationSeconds": 5}), max_size=1),
        "prioritizerPolicy": st.builds(lambda each: exact(*each), st.lists(prioritizers, min_size=1, max_size=3)),
        "spreadPolicy": st.sampled_from(["ScheduleAnyway", "DoNotSchedule"]).map(
            lambda each: {"spreadConstraints": [{"topologyKey": "region", "whenUnsatisfiable": each}]}
        ),
    },
)
moments = st.integers(-3, 8).map(lambda seconds: NOW + timedelta(seconds=seconds))
rounds = st.lists(
    st.tuples(st.integers(0, 1), st.sets(st.integers(0, 8)), st.integers(0, 2), moments), min_size=2, max_size=8
)
some_taints = st.lists(
    st.builds(taint, st.sampled_from("xy"), st.sampled_from(["NoSelect", "NoSelectIfNew", "PreferNoSelect"])),
    max_size=2,
)
fleets = st.lists(st.tuples(st.sampled_from(REGIONS), some_taints, st.integers(-2, 6)), min_size=1, max_size=9)


def fleet_of(clusters: list[Any]) -> PlacementInputs:
    """Return a fleet with every third cluster in the set lab. Its first scores expire after this many seconds;
    None: never."""
    raws = [
        cluster(
            f"c{n}",
            member="default" if n % 3 else "lab",
            labels={"region": region} if region else {},
            taints=taints,
            cpu=str(n % 4),
        )
        for n, (region, taints, _) in enumerate(clusters)
    ]
    scores = [score("usage", f"c{n}", {"cpu": 10 * n}, valid or None) for n, (_, _, valid) in enumerate(clusters)]
    sets = [cluster_set("default"), cluster_set("lab")]
    bindings = [{"metadata": {"namespace": SHOP, "name": each["metadata"]["name"]}} for each in sets]
    return read.fleet(raws, sets, bindings, scores)


CEL_OF = frozenset(("even", f"c{n}") for n in range(0, 9, 2))


def compare(clusters: list[Any], spec: Raw, shared: PlacementInputs, **arguments: Any) -> None:
    arguments = {"elsewhere": {}, "cel": CelVerdicts(matches=CEL_OF), **arguments}
    found = evaluate(placement(**spec), shared, **arguments)
    alone = evaluate(placement(**spec), fleet_of(clusters), **arguments)
    assert (found, found.refused) == (alone, alone.refused)


@given(fleets, st.lists(specs, min_size=2, max_size=2), rounds)
def test_what_is_found_out_once_is_right_for_each(clusters: list[Any], asked: list[Raw], turns: list[Any]) -> None:
    shared = fleet_of(clusters)
    for which, decided, most, now in turns:
        around: Raw = {"decided": {f"c{n}" for n in decided}, "elsewhere": {"c1": most}, "now": now}
        compare(clusters, asked[which], shared, **around)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"prioritizerPolicy": exact(addon("usage", "cpu"))}, id="scores expire"),
        pytest.param(
            {"prioritizerPolicy": exact(built_in("ResourceAllocatableCPU"))}, id="other clusters are compared"
        ),
        pytest.param({"spreadPolicy": {"spreadConstraints": [{"topologyKey": "region"}]}}, id="spread"),
        pytest.param({"predicates": [requires(celSelector={"celExpressions": ["even"]})]}, id="CEL"),
    ],
)
def test_time_and_decisions_count_for_each_anew(spec: Raw) -> None:
    clusters = [("eu", [], 0), ("us", [taint("x", age=2)], 3), ("", [taint("y", "NoSelectIfNew")], 5), ("eu", [], 1)]
    spec = {**spec, "tolerations": [{"key": "x", "operator": "Exists", "tolerationSeconds": 5}], "numberOfClusters": 2}
    shared = fleet_of(clusters)
    for seconds in (0, 2, 4, 20, 2):
        for decided in (set(), {"c2"}):
            compare(clusters, spec, shared, decided=decided, now=NOW + timedelta(seconds=seconds))
