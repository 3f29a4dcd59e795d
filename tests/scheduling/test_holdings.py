from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.census import Census, Resident
from agent.scheduling.holdings import Holding, Holdings
from agent.scheduling.podterms import Crowd, Selector, selector
from agent.scheduling.snapshot import Demand, amounts
from tests.scheduling.places import demand, free, place, telling

APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}
WEB = (Crowd(None, selector({"matchLabels": {"app": "web"}})),)
EU = place("eu", shapes=(telling(free("4", 3)),))
EVERYBODY = (Crowd(None, Selector()),)


def pod(uid: str, app: str = "web", cpu: str = "1") -> Demand:
    affinity = {"affinity": APART} if app == "web" else {}
    return demand(uid=uid, labels={"app": app}, proxy=affinity, cpu=cpu)


def test_a_pod_is_in_one_place_and_counts_once() -> None:
    held = Holdings()
    held.put(pod("1"), "eu", flying=True, unborn=True)
    held.put(pod("1"), "us")
    assert held.of("eu").pods == held.of("eu").sums == held.of("eu").flying == held.of("eu").unborn == {}
    assert held.of("us").sums == amounts({"cpu": "1", "pods": "1"})
    assert [resident.node for resident in held] == ["us"]


def test_what_is_known_of_a_pods_flight_survives_a_change_of_its_labels() -> None:
    held = Holdings()
    held.put(pod("1"), "eu", flying=True, unborn=True)
    held.put(pod("1", app="other"), "eu")
    assert held.of("eu").flying.keys() == held.of("eu").unborn.keys() == {"1"}


def test_a_pod_that_is_not_there_can_land_and_go() -> None:
    held = Holdings()
    held.remove("1")
    held.of("eu").land("1")
    held.of("eu").born("1")
    assert held.of("eu").version == 0


moves = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "land", "fly", "born"]),
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
    held = Holdings()
    held.census.count(WEB, held)
    held.census.count(EVERYBODY, held, leaving=False)
    for verb, number, node, app, flag in moves:
        uid = str(number)
        resident = held.get(uid)
        if verb == "put":
            held.put(pod(uid, app, str(number + 1)), node, flying=flag, unborn=flag, deleting=flag)
        elif verb == "remove":
            held.remove(uid)
        elif resident is not None:
            getattr(held.of(resident.node), verb)(uid)
    fresh = Census()
    for resident in held:
        fresh.note(resident, 1)
    for node in ("eu", "us"):
        holding = held.of(node)
        want: Counter[str] = Counter()
        for each in holding.pods.values():
            want.update(each.requests)
        assert holding.sums == want
        for uid in holding.pods:
            other, fresh_other = holding.without(uid, EU), Holding(node)
            for each in holding.pods.keys() - {uid}:
                flags = {"flying": each in holding.flying, "unborn": each in holding.unborn}
                fresh_other.put(each, holding.pods[each], **flags)
            for part in ("pods", "flying", "unborn", "sums", "coming_sums", "images"):
                assert getattr(other, part) == getattr(fresh_other, part), part
        assert holding.flying.keys() | holding.unborn.keys() <= holding.pods.keys()
        assert {r.demand.uid for r in held if r.node == node} == holding.pods.keys()
    assert held.census.count(WEB, ()) == fresh.count(WEB, held)
    assert held.census.count(EVERYBODY, (), leaving=False) == fresh.count(EVERYBODY, held, leaving=False)
    assert held.census.apart == fresh.apart


def test_a_pod_in_flight_that_has_room_on_a_node_is_not_in_its_own_way() -> None:
    held = Holdings()
    for uid in ("1", "2"):
        held.put(pod(uid, cpu="3"), EU.node_name, flying=True)
    holding = held.of(EU.node_name)
    wants = pod("3", cpu="3").wants
    assert holding.room(EU, wants) is None
    held.put(pod("3", cpu="3"), EU.node_name, flying=True)
    held.put(pod("4", cpu="3"), EU.node_name, flying=True)
    assert holding.room(EU, wants) is not None
    assert [holding.without(uid, EU).room(EU, wants) is None for uid in "1234"] == [True, True, True, False]
    assert holding.room(EU, wants) is not None
    holding.land("4")
    assert holding.room(EU, wants) is not None
    holding.land("1")
    assert holding.room(EU, wants) is None


@given(moves, st.integers(1, 5))
def test_room_kept_with_every_change_is_that_of_the_pods_in_flight(
    moves: list[tuple[str, int, str, str, bool]], size: int
) -> None:
    held = Holdings()
    wants = pod("x", cpu="2").wants
    for verb, number, _, _, flag in moves:
        held.of(EU.node_name).room(EU, wants)
        uid = str(number)
        if verb == "put":
            held.put(pod(uid, cpu="2"), EU.node_name, flying=flag)
        elif verb == "remove":
            held.remove(uid)
        elif held.get(uid) is not None:
            getattr(held.of(EU.node_name), verb)(uid)
    fresh = Holding(EU.node_name)
    for uid, each in held.of(EU.node_name).flying.items():
        fresh.put(uid, each, flying=True, unborn=False)
    asked = pod("x", cpu=str(size)).wants
    assert held.of(EU.node_name).room(EU, asked) == fresh.room(EU, asked)


def test_a_count_that_nobody_asked_for_is_made_from_all_pods() -> None:
    census = Census()
    residents = [Resident(pod("1"), "eu"), Resident(pod("2", "db"), "eu"), Resident(pod("3"), "us", deleting=True)]
    assert census.count(WEB, residents) == {"eu": 1, "us": 1}
    assert census.count(WEB, residents, leaving=False) == {"eu": 1}
