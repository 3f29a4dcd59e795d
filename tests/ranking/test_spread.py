"""Topology spread over virtual nodes: the examples of Kubernetes' documentation, and a naive reference."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.snapshot import PodInfo, TargetInfo
from agent.ranking.usage import Usages
from tests.ranking.pods_and_targets import pod_info, ranked, target_info

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


def wanted(*constraints: dict[str, Any], labels: dict[str, str] | None = None, **proxy: Any) -> PodInfo:
    return pod_info(
        proxy={"topologySpreadConstraints": list(constraints), **proxy}, labels=WEB if labels is None else labels
    )


def world(
    *zones: tuple[str, int], labels: dict[str, str] | None = None, **more: Any
) -> tuple[list[TargetInfo], Usages]:
    """Return one target per entry: its zone (empty: none) and its number of pods."""
    targets, held = [], Usages()
    for number, (zone, count) in enumerate(zones):
        target = target_info(f"t{number}", labels={ZONE: zone, "host": f"t{number}"} if zone else {}, **more)
        targets.append(target)
        for pod in range(count):
            held.put(pod_info(uid=f"{number}/{pod}", labels=WEB if labels is None else labels), target.node_name)
    return targets, held


def feasible(asks: PodInfo, targets: list[TargetInfo], held: Usages) -> list[str]:
    return sorted(each.title for each in ranked(asks, *targets, held=held).order)


def test_pods_go_where_the_skew_stays_small() -> None:
    targets, held = world(("a", 2), ("b", 1))
    assert feasible(wanted(spreading()), targets, held) == ["t1"]
    assert feasible(wanted(spreading(2)), targets, held) == ["t0", "t1"]
    (rejected,) = ranked(wanted(spreading()), *targets, held=held).rejected
    assert rejected[1] == ("TopologySpread", "topology spread over zone (skew 2, at most 1)")


def test_zones_of_several_targets_count_together() -> None:
    targets, held = world(("a", 1), ("a", 1), ("b", 1))
    assert feasible(wanted(spreading()), targets, held) == ["t2"]


def test_constraints_must_all_be_kept() -> None:
    targets, held = world(("a", 1), ("a", 1), ("b", 1), ("b", 0))
    assert feasible(wanted(spreading(), spreading(key="host")), targets, held) == ["t3"]


def test_a_target_without_the_label_is_refused_and_is_no_domain() -> None:
    targets, held = world(("a", 1), ("", 0))
    ranking = ranked(wanted(spreading()), *targets, held=held)
    assert [each.title for each in ranking.order] == ["t0"]
    assert ranking.rejected[0][1].message == "virtual node lacks the label zone of a topology spread"


def test_too_few_domains_count_as_one_more_that_is_empty() -> None:
    targets, held = world(("a", 1), ("b", 1))
    assert feasible(wanted(spreading(minDomains=3)), targets, held) == []
    assert feasible(wanted(spreading(minDomains=2)), targets, held) == ["t0", "t1"]


def test_a_pod_that_is_not_of_the_crowd_adds_no_skew() -> None:
    targets, held = world(("a", 1), ("b", 0))
    assert feasible(wanted(spreading(), labels={}), targets, held) == ["t0", "t1"]


def test_a_constraint_without_selector_counts_nobody() -> None:
    targets, held = world(("a", 5), ("b", 0))
    assert feasible(wanted(spreading(labelSelector=None)), targets, held) == ["t0", "t1"]


def test_pods_that_are_being_deleted_and_those_of_other_namespaces_do_not_count() -> None:
    targets, held = world(("a", 0), ("b", 0))
    held.put(pod_info(uid="leaving", labels=WEB), targets[0].node_name, deleting=True)
    held.put(pod_info(uid="foreign", labels=WEB, namespace="other"), targets[0].node_name)
    assert feasible(wanted(spreading()), targets, held) == ["t0", "t1"]


def test_the_pod_itself_does_not_count() -> None:
    targets, held = world(("a", 0), ("b", 0))
    asks = pod_info(uid="me", labels=WEB, proxy={"topologySpreadConstraints": [spreading()]})
    held.put(asks, targets[0].node_name)
    assert feasible(asks, targets, held) == ["t0", "t1"]


def test_targets_that_the_affinity_rules_out_are_no_domain_unless_they_are_to_count() -> None:
    targets, held = world(("a", 1), ("b", 0))
    only_a = {"nodeSelector": {ZONE: "a"}}
    assert feasible(wanted(spreading(), **only_a), targets, held) == ["t0"]
    assert feasible(wanted(spreading(nodeAffinityPolicy="Ignore"), **only_a), targets, held) == []


def test_tainted_targets_are_domains_unless_taints_are_honoured() -> None:
    targets, held = world(("a", 1), ("b", 0))
    targets[1] = target_info("t1", labels={ZONE: "b"}, taints=({"key": "down", "effect": "NoSchedule"},))
    assert feasible(wanted(spreading()), targets, held) == []
    assert feasible(wanted(spreading(nodeTaintsPolicy="Honor")), targets, held) == ["t0"]


def test_a_target_of_another_namespace_is_no_domain() -> None:
    targets, held = world(("a", 1))
    targets.append(target_info("foreign", namespace="other", labels={ZONE: "b"}))
    assert feasible(wanted(spreading()), targets, held) == ["t0"]


@pytest.mark.parametrize(("revision", "there"), [("1", ["t1"]), ("2", ["t0", "t1"])])
def test_match_label_keys_count_pods_of_the_same_revision(revision: str, there: list[str]) -> None:
    targets, held = world(("a", 1), ("b", 0), labels={**WEB, "hash": "1"})
    asks = wanted(spreading(matchLabelKeys=["hash"]), labels={**WEB, "hash": revision})
    assert feasible(asks, targets, held) == there


def test_schedule_anyway_prefers_the_emptier_domain_and_refuses_nobody() -> None:
    targets, held = world(("a", 3), ("b", 1), ("", 0))
    ranking = ranked(wanted(spreading(unsatisfiable="ScheduleAnyway")), *targets, held=held)
    assert [each.title for each in ranking.order] == ["t1", "t0", "t2"]
    found = {each.title: ranking.scored(wanted(), each) for each in targets}
    scores = {title: round(scored.scores["spread"]) for title, scored in found.items() if scored}
    assert scores == {"t1": 100, "t0": 33, "t2": 0}


zones = st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.integers(0, 4)), min_size=1, max_size=7)


@given(zones, st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_who_is_refused_is_who_would_make_the_skew_too_large(
    zones: list[tuple[str, int]], skew: int, least_domains: int, own: bool
) -> None:
    targets, held = world(*zones)
    asks = wanted(spreading(skew, minDomains=least_domains), labels=WEB if own else {})
    counts: dict[str, int] = {}
    for zone, count in zones:
        if zone:
            counts[zone] = counts.get(zone, 0) + count
    least = min(counts.values(), default=0) if len(counts) >= least_domains else 0
    want = [f"t{number}" for number, (zone, _) in enumerate(zones) if zone and counts[zone] + own - least <= skew]
    assert feasible(asks, targets, held) == sorted(want)


@given(st.integers(2, 4), st.integers(1, 20))
def test_a_deployment_is_spread_as_evenly_as_asked(domains: int, pods: int) -> None:
    targets, held = world(*((f"z{number}", 0) for number in range(domains)))
    for number in range(pods):
        asks = pod_info(uid=str(number), labels=WEB, proxy={"topologySpreadConstraints": [spreading()]})
        held.put(asks, ranked(asks, *targets, held=held, turn=number).order[0].node_name)
    counts = [len(held.of(each.node_name).pods) for each in targets]
    assert max(counts) - min(counts) <= 1
