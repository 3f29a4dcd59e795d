"""Topology spread over virtual nodes: the examples of Kubernetes' documentation, and a naive reference."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.holdings import Holdings
from agent.scheduling.snapshot import Demand, Place
from tests.scheduling.places import demand, place, ranked

ZONE = "zone"
WEB = {"app": "web"}


def spreading(skew: int = 1, unsatisfiable: str = "DoNotSchedule", key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": {"matchLabels": WEB},
        **more,
    }


def wanted(*constraints: dict[str, Any], labels: dict[str, str] | None = None, **proxy: Any) -> Demand:
    return demand(
        proxy={"topologySpreadConstraints": list(constraints), **proxy}, labels=WEB if labels is None else labels
    )


def world(*zones: tuple[str, int], labels: dict[str, str] | None = None, **more: Any) -> tuple[list[Place], Holdings]:
    """One target per entry: its zone (empty: none) and how many pods it has."""
    places, held = [], Holdings()
    for number, (zone, count) in enumerate(zones):
        target = place(f"t{number}", labels={ZONE: zone, "host": f"t{number}"} if zone else {}, **more)
        places.append(target)
        for pod in range(count):
            held.put(demand(uid=f"{number}/{pod}", labels=WEB if labels is None else labels), target.node_name)
    return places, held


def feasible(asks: Demand, places: list[Place], held: Holdings) -> list[str]:
    return sorted(each.title for each in ranked(asks, *places, held=held).order)


def test_pods_go_where_the_skew_stays_small() -> None:
    places, held = world(("a", 2), ("b", 1))
    assert feasible(wanted(spreading()), places, held) == ["t1"]
    assert feasible(wanted(spreading(2)), places, held) == ["t0", "t1"]
    (refused,) = ranked(wanted(spreading()), *places, held=held).refused
    assert refused[1] == ("TopologySpread", "topology spread over zone (skew 2, at most 1)")


def test_zones_of_several_targets_count_together() -> None:
    places, held = world(("a", 1), ("a", 1), ("b", 1))
    assert feasible(wanted(spreading()), places, held) == ["t2"]


def test_constraints_must_all_be_kept() -> None:
    places, held = world(("a", 1), ("a", 1), ("b", 1), ("b", 0))
    assert feasible(wanted(spreading(), spreading(key="host")), places, held) == ["t3"]


def test_a_target_without_the_label_is_refused_and_is_no_domain() -> None:
    places, held = world(("a", 1), ("", 0))
    ranking = ranked(wanted(spreading()), *places, held=held)
    assert [each.title for each in ranking.order] == ["t0"]
    assert ranking.refused[0][1].message == "virtual node lacks the label zone of a topology spread"


def test_too_few_domains_count_as_one_more_that_is_empty() -> None:
    places, held = world(("a", 1), ("b", 1))
    assert feasible(wanted(spreading(minDomains=3)), places, held) == []
    assert feasible(wanted(spreading(minDomains=2)), places, held) == ["t0", "t1"]


def test_a_pod_that_is_not_of_the_crowd_adds_no_skew() -> None:
    places, held = world(("a", 1), ("b", 0))
    assert feasible(wanted(spreading(), labels={}), places, held) == ["t0", "t1"]


def test_a_constraint_without_selector_counts_nobody() -> None:
    places, held = world(("a", 5), ("b", 0))
    assert feasible(wanted(spreading(labelSelector=None)), places, held) == ["t0", "t1"]


def test_pods_that_are_being_deleted_and_those_of_other_namespaces_do_not_count() -> None:
    places, held = world(("a", 0), ("b", 0))
    held.put(demand(uid="leaving", labels=WEB), places[0].node_name, deleting=True)
    held.put(demand(uid="foreign", labels=WEB, namespace="other"), places[0].node_name)
    assert feasible(wanted(spreading()), places, held) == ["t0", "t1"]


def test_the_pod_itself_does_not_count() -> None:
    places, held = world(("a", 0), ("b", 0))
    asks = demand(uid="me", labels=WEB, proxy={"topologySpreadConstraints": [spreading()]})
    held.put(asks, places[0].node_name)
    assert feasible(asks, places, held) == ["t0", "t1"]


def test_targets_that_the_affinity_rules_out_are_no_domain_unless_they_are_to_count() -> None:
    places, held = world(("a", 1), ("b", 0))
    only_a = {"nodeSelector": {ZONE: "a"}}
    assert feasible(wanted(spreading(), **only_a), places, held) == ["t0"]
    assert feasible(wanted(spreading(nodeAffinityPolicy="Ignore"), **only_a), places, held) == []


def test_tainted_targets_are_domains_unless_taints_are_honoured() -> None:
    places, held = world(("a", 1), ("b", 0))
    places[1] = place("t1", labels={ZONE: "b"}, taints=({"key": "down", "effect": "NoSchedule"},))
    assert feasible(wanted(spreading()), places, held) == []
    assert feasible(wanted(spreading(nodeTaintsPolicy="Honor")), places, held) == ["t0"]


def test_a_target_of_another_namespace_is_no_domain() -> None:
    places, held = world(("a", 1))
    places.append(place("foreign", namespace="other", labels={ZONE: "b"}))
    assert feasible(wanted(spreading()), places, held) == ["t0"]


@pytest.mark.parametrize(("revision", "there"), [("1", ["t1"]), ("2", ["t0", "t1"])])
def test_match_label_keys_count_pods_of_the_same_revision(revision: str, there: list[str]) -> None:
    places, held = world(("a", 1), ("b", 0), labels={**WEB, "hash": "1"})
    asks = wanted(spreading(matchLabelKeys=["hash"]), labels={**WEB, "hash": revision})
    assert feasible(asks, places, held) == there


def test_schedule_anyway_prefers_the_emptier_domain_and_refuses_nobody() -> None:
    places, held = world(("a", 3), ("b", 1), ("", 0))
    ranking = ranked(wanted(spreading(unsatisfiable="ScheduleAnyway")), *places, held=held)
    assert [each.title for each in ranking.order] == ["t1", "t0", "t2"]
    found = {each.title: ranking.scored(wanted(), each) for each in places}
    scores = {title: round(scored.scores["spread"]) for title, scored in found.items() if scored}
    assert scores == {"t1": 100, "t0": 33, "t2": 0}


zones = st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(0, 4)), min_size=1, max_size=7)


@given(zones, st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_who_is_refused_is_who_would_make_the_skew_too_large(
    zones: list[tuple[str, int]], skew: int, least_domains: int, own: bool
) -> None:
    places, held = world(*zones)
    asks = wanted(spreading(skew, minDomains=least_domains), labels=WEB if own else {})
    counts: dict[str, int] = {}
    for zone, count in zones:
        if zone:
            counts[zone] = counts.get(zone, 0) + count
    least = min(counts.values(), default=0) if len(counts) >= least_domains else 0
    want = [f"t{number}" for number, (zone, _) in enumerate(zones) if zone and counts[zone] + own - least <= skew]
    assert feasible(asks, places, held) == sorted(want)


@given(st.integers(2, 4), st.integers(1, 20))
def test_a_deployment_is_spread_as_evenly_as_asked(domains: int, pods: int) -> None:
    places, held = world(*((f"z{number}", 0) for number in range(domains)))
    for number in range(pods):
        asks = demand(uid=str(number), labels=WEB, proxy={"topologySpreadConstraints": [spreading()]})
        held.put(asks, ranked(asks, *places, held=held, turn=number).order[0].node_name)
    counts = [len(held.of(each.node_name).pods) for each in places]
    assert max(counts) - min(counts) <= 1
