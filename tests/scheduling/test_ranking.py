from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.ranking import Load, explain, rank
from agent.scheduling.snapshot import amounts
from tests.scheduling.places import demand, place

EU, US, AP = place("eu"), place("us"), place("ap")


def titles(*, places: tuple = (EU, US, AP), loads: dict[str, Load] | None = None, **wanted: object) -> list[str]:  # type: ignore[type-arg]
    return [found.title for found in rank(demand(**wanted), places, loads or {}).order]  # type: ignore[arg-type]


def test_the_target_that_holds_least_of_ours_comes_first() -> None:
    loads = {EU.node_name: Load(3), US.node_name: Load(1), AP.node_name: Load(2)}
    assert titles(loads=loads) == ["us", "ap", "eu"]


def test_pods_spread_in_proportion_to_the_room_for_them() -> None:
    large = place("large", allocatable=amounts({"pods": "200"}))
    small = place("small", allocatable=amounts({"pods": "100"}))
    count: Counter[str] = Counter()
    for _ in range(30):
        loads = {found.node_name: Load(count[found.title]) for found in (small, large)}
        count[rank(demand(), (small, large), loads).order[0].title] += 1
    assert count == {"large": 20, "small": 10}


def test_a_preferred_region_counts_more_than_the_load() -> None:
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/region", "operator": "In", "values": ["eu"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    proxy = {"affinity": {"nodeAffinity": preferred}}
    assert titles(loads={EU.node_name: Load(1000)}, proxy=proxy)[0] == "eu"


def test_targets_that_a_pod_has_tried_come_after_those_it_has_not() -> None:
    ranking = rank(demand(attempts={EU.node_name: "full"}), (EU, US), {US.node_name: Load(1000)})
    assert ([found.title for found in ranking.order], ranking.untried) == (["us", "eu"], 1)


def test_the_explanation_names_every_target_that_will_not_do_and_why() -> None:
    away = place("us", ready=False, state="no answer since 10:00")
    ranking = rank(demand(attempts={EU.node_name: "0/5 nodes"}), (EU, away, place("x", namespace="other")), {})
    told = explain(ranking, {EU.node_name: "0/5 nodes"}, {})
    assert told == "0/2 targets are available: eu: 0/5 nodes, us: no answer since 10:00"


def test_a_filters_verdict_of_now_counts_more_than_the_memory_of_an_attempt() -> None:
    away = place("us", ready=False, state="no answer")
    assert explain(rank(demand(), (away,), {}), {away.node_name: "was full"}, {}).endswith("us: no answer")


def test_what_the_claim_says_counts_more_than_a_filters_verdict() -> None:
    away = place("us", ready=False, state="no answer")
    told = explain(rank(demand(), (away,), {}), {}, {away.node_name: "the pod is claimed by this target: no answer"})
    assert told == "0/1 targets are available: us: the pod is claimed by this target: no answer"


def test_a_target_and_a_cluster_target_of_the_same_name_are_both_told() -> None:
    one = place("eu", ready=False, state="first")
    other = place("eu", node_name="admiralty-eu", namespace="", ready=False, state="second")
    assert explain(rank(demand(), (one, other), {}), {}, {}) == "0/2 targets are available: eu: first, eu: second"


def test_without_targets_the_explanation_says_what_to_create() -> None:
    assert "create a Target" in explain(rank(demand(), (), {}), {}, {})


ready = st.lists(st.booleans(), min_size=3, max_size=3)
loads = st.lists(st.integers(0, 5), min_size=3, max_size=3)


@given(ready, loads, st.sets(st.sampled_from(["eu", "us", "ap"])))
def test_every_target_is_either_ranked_once_or_refused_and_untried_ones_lead(
    ready: list[bool], loads: list[int], tried: set[str]
) -> None:
    places = [place(title, ready=well) for title, well in zip(("eu", "us", "ap"), ready, strict=True)]
    attempts = {found.node_name: "full" for found in places if found.title in tried}
    held = {found.node_name: Load(count) for found, count in zip(places, loads, strict=True)}
    ranking = rank(demand(attempts=attempts), places, held)
    ranked, refused = [found.title for found in ranking.order], [found.title for found, _ in ranking.refused]
    assert sorted(ranked + refused) == ["ap", "eu", "us"]
    assert not tried & set(ranked[: ranking.untried])
    assert set(ranked[ranking.untried :]) <= tried
