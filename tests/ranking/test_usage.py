from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.pod_counts import PlacedPod, PodCounts
from agent.ranking.pod_terms import PodSelector, Selector, selector
from agent.ranking.snapshot import PodInfo, amounts
from agent.ranking.usage import Usage, Usages
from tests.ranking.pods_and_targets import free, pod_info, target_info, telling

APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}
WEB = (PodSelector(None, selector({"matchLabels": {"app": "web"}})),)
EU = target_info("eu", shapes=(telling(free("4", 3)),))
EVERYBODY = (PodSelector(None, Selector()),)


def pod(uid: str, app: str = "web", cpu: str = "1") -> PodInfo:
    affinity = {"affinity": APART} if app == "web" else {}
    return pod_info(uid=uid, labels={"app": app}, proxy=affinity, cpu=cpu)


def test_a_pod_is_in_one_place_and_counts_once() -> None:
    held = Usages()
    held.put(pod("1"), "eu", assumed=True, undelegated=True)
    held.put(pod("1"), "us")
    assert held.of("eu").pods == held.of("eu").requests == held.of("eu").assumed == held.of("eu").undelegated == {}
    assert held.of("us").requests == amounts({"cpu": "1", "pods": "1"})
    assert [placed.node for placed in held] == ["us"]


def test_what_is_assumed_of_a_pod_survives_a_change_of_its_labels() -> None:
    held = Usages()
    held.put(pod("1"), "eu", assumed=True, undelegated=True)
    held.put(pod("1", app="other"), "eu")
    assert held.of("eu").assumed.keys() == held.of("eu").undelegated.keys() == {"1"}


def test_a_pod_that_is_not_there_can_be_confirmed_and_go() -> None:
    held = Usages()
    held.remove("1")
    held.of("eu").confirm("1")
    held.of("eu").delegated("1")
    assert held.of("eu").version == 0


moves = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "confirm", "assume", "delegated"]),
        st.integers(0, 4),
        st.sampled_from(["eu", "us"]),
        st.sampled_from(["web", "db"]),
        st.booleans(),
    ),
    max_size=30,
)


@given(moves)
def test_sums_and_counts_kept_with_every_change_are_those_of_the_pods_that_are_there(
    moves: list[tuple[str, int, str, str, bool]],
) -> None:
    held = Usages()
    held.counts.count(WEB, held)
    held.counts.count(EVERYBODY, held, leaving=False)
    for verb, number, node, app, flag in moves:
        uid = str(number)
        placed = held.get(uid)
        if verb == "put":
            held.put(pod(uid, app, str(number + 1)), node, assumed=flag, undelegated=flag, deleting=flag)
        elif verb == "remove":
            held.remove(uid)
        elif placed is not None:
            getattr(held.of(placed.node), verb)(uid)
    fresh = PodCounts()
    for placed in held:
        fresh.note(placed, 1)
    for node in ("eu", "us"):
        usage = held.of(node)
        want: Counter[str] = Counter()
        for each in usage.pods.values():
            want.update(each.requests)
        assert usage.requests == want
        for uid in usage.pods:
            other, fresh_other = usage.without(uid, EU), Usage(node)
            for each in usage.pods.keys() - {uid}:
                flags = {"assumed": each in usage.assumed, "undelegated": each in usage.undelegated}
                fresh_other.put(each, usage.pods[each], **flags)
            for part in ("pods", "assumed", "undelegated", "requests", "assumed_requests", "images"):
                assert getattr(other, part) == getattr(fresh_other, part), part
        assert usage.assumed.keys() | usage.undelegated.keys() <= usage.pods.keys()
        assert {r.pod.uid for r in held if r.node == node} == usage.pods.keys()
    assert held.counts.count(WEB, ()) == fresh.count(WEB, held)
    assert held.counts.count(EVERYBODY, (), leaving=False) == fresh.count(EVERYBODY, held, leaving=False)
    assert held.counts.anti_affinity == fresh.anti_affinity


def test_an_assumed_pod_that_has_room_on_a_node_is_not_in_its_own_way() -> None:
    held = Usages()
    for uid in ("1", "2"):
        held.put(pod(uid, cpu="3"), EU.node_name, assumed=True)
    usage = held.of(EU.node_name)
    template = pod("3", cpu="3").template
    assert usage.node_fit(EU, template) is None
    held.put(pod("3", cpu="3"), EU.node_name, assumed=True)
    held.put(pod("4", cpu="3"), EU.node_name, assumed=True)
    assert usage.node_fit(EU, template) is not None
    assert [usage.without(uid, EU).node_fit(EU, template) is None for uid in "1234"] == [True, True, True, False]
    assert usage.node_fit(EU, template) is not None
    usage.confirm("4")
    assert usage.node_fit(EU, template) is not None
    usage.confirm("1")
    assert usage.node_fit(EU, template) is None


@given(moves, st.integers(1, 5))
def test_room_kept_with_every_change_is_that_of_the_assumed_pods(
    moves: list[tuple[str, int, str, str, bool]], size: int
) -> None:
    held = Usages()
    template = pod("x", cpu="2").template
    for verb, number, _, _, flag in moves:
        held.of(EU.node_name).node_fit(EU, template)
        uid = str(number)
        if verb == "put":
            held.put(pod(uid, cpu="2"), EU.node_name, assumed=flag)
        elif verb == "remove":
            held.remove(uid)
        elif held.get(uid) is not None:
            getattr(held.of(EU.node_name), verb)(uid)
    fresh = Usage(EU.node_name)
    for uid, each in held.of(EU.node_name).assumed.items():
        fresh.put(uid, each, assumed=True, undelegated=False)
    asked = pod("x", cpu=str(size)).template
    assert held.of(EU.node_name).node_fit(EU, asked) == fresh.node_fit(EU, asked)


def test_a_count_that_nobody_asked_for_is_made_from_all_pods() -> None:
    counts = PodCounts()
    placed_pods = [PlacedPod(pod("1"), "eu"), PlacedPod(pod("2", "db"), "eu"), PlacedPod(pod("3"), "us", deleting=True)]
    assert counts.count(WEB, placed_pods) == {"eu": 1, "us": 1}
    assert counts.count(WEB, placed_pods, leaving=False) == {"eu": 1}
