import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.rank import rank
from agent.ranking.scores import Weights
from agent.ranking.snapshot import Extra, TargetInfo, amounts
from agent.ranking.usage import Usages
from tests.ranking.pods_and_targets import WEIGHTS, free, pod_info, ranked, shape, target_info, telling, usages

EU, US, AP = target_info("eu"), target_info("us"), target_info("ap")
ONE_TAINT = {"key": "virtual-kubelet.io/provider", "value": "admiralty", "effect": "NoSchedule"}


def titles(*targets: TargetInfo, held: Usages | None = None, weights: Weights = WEIGHTS, **wanted: Any) -> list[str]:
    found = ranked(pod_info(**wanted), *(targets or (EU, US, AP)), held=held, weights=weights)
    return [each.title for each in found.order]


def preferring(region: str, weight: int = 1) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/region", "operator": "In", "values": [region]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": term}]}
    return {"affinity": {"nodeAffinity": preferred}}


def test_the_target_that_holds_least_of_ours_comes_first() -> None:
    assert titles(held=usages(eu=3, us=1, ap=2)) == ["us", "ap", "eu"]


def fill(*targets: TargetInfo, pods: int, **wanted: Any) -> Counter[str]:
    """Return the targets of this many pods, ranked one after another."""
    held, count = Usages(), Counter[str]()
    template = pod_info(**wanted).template
    for number in range(pods):
        asks = pod_info(uid=f"p{number}", **wanted)
        object.__setattr__(asks, "wants", template)
        first = rank(asks, targets, held, WEIGHTS, turn=number).order[0]
        held.put(asks, first.node_name, assumed=True, undelegated=True)
        count[first.title] += 1
    return count


def test_pods_spread_in_proportion_to_the_room_for_them() -> None:
    large = target_info("large", allocatable=amounts({"pods": "200"}))
    small = target_info("small", allocatable=amounts({"pods": "100"}))
    assert fill(small, large, pods=30) == {"large": 20, "small": 10}


def test_a_target_that_others_use_gets_fewer_pods_when_it_tells_what_is_free() -> None:
    room = amounts({"cpu": "100", "memory": "1000Gi", "pods": "1000"})
    busy = target_info("busy", allocatable=room, shapes=(telling(free("50", memory="500Gi", pods="500"), cpu="100"),))
    idle = target_info(
        "idle", allocatable=room, shapes=(telling(free("100", memory="1000Gi", pods="1000"), cpu="100"),)
    )
    assert fill(busy, idle, pods=20, cpu="1", memory="10Gi") == {"idle": 20}


def test_what_cordoned_nodes_have_left_draws_no_pods() -> None:
    half = {"allocatable": amounts({"cpu": "8", "memory": "16Gi", "pods": "220"})}
    cordoned = dataclasses.replace(telling(free("4")), unschedulable=True)
    drained = target_info("eu", shapes=(telling(free("4")), cordoned), **half)
    used = target_info("us", shapes=(telling(free("4")), telling(free("3"))), **half)
    assert titles(drained, used) == ["us", "eu"]


def test_pods_in_flight_take_room_that_a_target_tells_as_free_until_they_have_landed() -> None:
    room = amounts({"cpu": "4", "memory": "8Gi", "pods": "110"})
    eu, us = (target_info(title, allocatable=room, shapes=(telling(free("4")),)) for title in ("eu", "us"))
    held = Usages()
    held.put(pod_info(uid="1", cpu="3"), eu.node_name, assumed=True)
    for turn in (0, 1):
        assert ranked(pod_info(cpu="1"), eu, us, held=held, turn=turn).order == (us, eu)
    assert ranked(pod_info(cpu="2"), eu, us, held=held).order == (us,)
    held.of(eu.node_name).confirm("1")
    assert len(ranked(pod_info(cpu="2"), eu, us, held=held).order) == 2


def test_most_allocated_fills_one_target_before_the_next() -> None:
    room = amounts({"pods": "100"})
    targets = [target_info(title, allocatable=room) for title in ("eu", "us")]
    assert titles(*targets, held=usages(eu=1, us=3), weights=Weights(strategy="most")) == ["us", "eu"]


def test_targets_that_are_equally_good_take_turns() -> None:
    first = Counter(ranked(pod_info(), EU, US, AP, turn=turn).order[0].title for turn in range(9))
    assert first == {"eu": 3, "us": 3, "ap": 3}


def test_a_preferred_region_counts_more_than_the_load() -> None:
    assert titles(held=usages(eu=1000), proxy=preferring("eu"))[0] == "eu"


def test_a_preferred_region_counts_more_than_everything_else_together() -> None:
    loved = target_info("us", weight=100)
    assert titles(EU, loved, held=usages(eu=1000), proxy=preferring("eu"))[0] == "eu"


def test_a_taint_that_prefers_nobody_is_avoided_and_refuses_nobody() -> None:
    soft = target_info("us", taints=(ONE_TAINT, {"key": "spot", "effect": "PreferNoSchedule"}))
    assert titles(soft, EU, held=usages(eu=5)) == ["eu", "us"]
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    assert titles(soft, EU, held=usages(eu=5), proxy=tolerant) == ["us", "eu"]


def test_the_weight_of_a_target_draws_pods_until_it_is_full() -> None:
    room = amounts({"pods": "4"})
    home = target_info("home", weight=100, allocatable=room, shapes=(telling(free("4", pods="4"), cpu="4"),))
    away = target_info("away", allocatable=amounts({"pods": "1000"}))
    assert fill(home, away, pods=10) == {"home": 4, "away": 6}
    assert titles(target_info("eu", weight=-50), US, held=usages(us=9)) == ["us", "eu"]


def test_images_that_are_there_break_a_tie() -> None:
    weights = Weights(capacity=0)
    held = Usages()
    held.put(pod_info(uid="1", spec={"containers": [{"name": "c", "image": "web"}]}), US.node_name)
    wanted = pod_info(spec={"containers": [{"name": "c", "image": "web"}]})
    assert [ranked(wanted, EU, US, held=held, weights=weights, turn=turn).order[0] for turn in (0, 1)] == [US, US]


@pytest.mark.parametrize(("weight", "first"), [(5.0, "us"), (-5.0, "eu")])
def test_the_scores_of_others_count_by_their_weight(weight: float, first: str) -> None:
    weights = Weights(extra={"usage:cpu": weight})
    assert titles(EU, target_info("us", extra={"usage:cpu": Extra(80)}), weights=weights)[0] == first


def test_a_missing_score_of_others_is_neither_good_nor_bad() -> None:
    weights = Weights(extra={"usage:cpu": 5.0})
    bad, good = (target_info(title, extra={"usage:cpu": Extra(value)}) for title, value in (("bad", -1), ("good", 1)))
    assert titles(bad, EU, good, weights=weights) == ["good", "eu", "bad"]


def test_a_slow_target_comes_after_all_others_that_were_not_tried() -> None:
    slow = target_info("us", slow=True, weight=100)
    assert titles(slow, EU, proxy=preferring("us")) == ["eu", "us"]
    assert titles(slow, EU, attempts={EU.node_name: "full"}) == ["us", "eu"]


def test_targets_that_a_pod_has_tried_come_after_those_it_has_not() -> None:
    ranking = ranked(pod_info(attempts={EU.node_name: "full"}), EU, US, held=usages(us=1000))
    assert ([found.title for found in ranking.order], ranking.untried) == (["us", "eu"], 1)


def test_targets_that_lack_only_room_are_where_one_candidate_may_wait_the_likeliest_first() -> None:
    full = target_info("full", shapes=(telling(free("1"), cpu="8"),))
    small = target_info("small", shapes=(shape(cpu="2"),))
    none = target_info("none", shapes=(shape(cordoned=True, cpu="9"),))
    lost = target_info("lost", ready=False, state="no answer", shapes=(telling(free("1"), cpu="8"),))
    ranking = ranked(pod_info(cpu="4"), none, small, lost, full)
    assert [found.title for found in ranking.pending] == ["full", "small", "none"]
    assert ranking.order == ()
    large_enough = target_info("roomy", shapes=(telling(free("8"), cpu="8"),))
    assert ranked(pod_info(cpu="4"), full, large_enough).pending == ()


def test_a_pod_is_not_in_its_own_way() -> None:
    target = target_info("eu", limits=amounts({"pods": "1"}), shapes=(telling(free("4"), cpu="4"),))
    held, wanted = Usages(), pod_info(uid="me", cpu="4")
    held.put(wanted, target.node_name, assumed=True, undelegated=True)
    assert ranked(wanted, target, held=held).order == (target,)
    assert ranked(pod_info(uid="other", cpu="4"), target, held=held).rejected[0][1].reason == "LimitReached"


ready = st.lists(st.booleans(), min_size=3, max_size=3)
loads = st.lists(st.integers(0, 5), min_size=3, max_size=3)


@given(ready, loads, st.sets(st.sampled_from(["eu", "us", "ap"])), st.integers(0, 9))
def test_every_target_is_either_ranked_once_or_refused_and_untried_ones_lead(
    ready: list[bool], loads: list[int], tried: set[str], turn: int
) -> None:
    targets = [target_info(title, ready=well) for title, well in zip(("eu", "us", "ap"), ready, strict=True)]
    attempts = {found.node_name: "full" for found in targets if found.title in tried}
    held = usages(**dict(zip(("eu", "us", "ap"), loads, strict=True)))
    ranking = ranked(pod_info(attempts=attempts), *targets, held=held, turn=turn)
    names, rejected = [found.title for found in ranking.order], [found.title for found, _ in ranking.rejected]
    assert sorted(names + rejected) == ["ap", "eu", "us"]
    assert not tried & set(names[: ranking.untried])
    assert set(names[ranking.untried :]) <= tried


steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=25)


@given(steps)
def test_what_is_remembered_of_a_template_is_what_would_be_found_out_again(steps: list[tuple[int, int, bool]]) -> None:
    """A burst of equal pods is ranked with and without the per-template cache; the results are equal."""
    targets = [
        target_info(
            title,
            allocatable=amounts({"cpu": "6", "pods": "9"}),
            shapes=(telling(free("2", 2), free("1", 2), cpu="2"),),
            limits=amounts({"pods": "7"}),
        )
        for title in ("a", "b", "c")
    ]
    held = Usages()
    template = pod_info(cpu="1").template
    for number, (where, which, comes) in enumerate(steps):
        if comes:
            held.put(
                pod_info(uid=str(which), cpu="1"), targets[where].node_name, assumed=bool(number % 2), undelegated=True
            )
        else:
            held.remove(str(which))
        warm = pod_info()
        object.__setattr__(warm, "template", template)
        fresh = Usages()
        for placed in held:
            usage = held.of(placed.node)
            fresh.put(placed.pod, placed.node, assumed=placed.pod.uid in usage.assumed, undelegated=True)
        found, wanted = rank(warm, targets, held, WEIGHTS), rank(pod_info(cpu="1"), targets, fresh, WEIGHTS)
        assert (found.order, found.rejected) == (wanted.order, wanted.rejected)


def test_a_pod_goes_where_the_volumes_of_its_claims_are() -> None:
    asks = pod_info().beside({"data": "admiralty-default-us"})
    found = rank(asks, (EU, US, AP), usages(us=9), WEIGHTS)
    assert [each.title for each in found.order] == ["us"]
    want = "the volume of claim data is in us"
    assert [(each.title, rejection.reason, rejection.message) for each, rejection in found.rejected] == [
        ("eu", "VolumeElsewhere", want),
        ("ap", "VolumeElsewhere", want),
    ]


def test_a_pod_whose_volumes_are_in_several_targets_can_go_nowhere() -> None:
    asks = pod_info().beside({"a": "admiralty-default-us", "b": "admiralty-default-eu"})
    found = rank(asks, (EU, US), usages(), WEIGHTS)
    assert found.order == ()
    assert len(found.rejected) == 2
