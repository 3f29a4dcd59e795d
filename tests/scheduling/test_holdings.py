from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.census import Census, Resident
from agent.scheduling.holdings import Holdings
from agent.scheduling.podterms import Crowd, Selector, selector
from agent.scheduling.snapshot import Demand, amounts
from tests.scheduling.places import demand

APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}
WEB = (Crowd(None, selector({"matchLabels": {"app": "web"}})),)
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
        assert holding.flying.keys() | holding.unborn.keys() <= holding.pods.keys()
        assert {r.demand.uid for r in held if r.node == node} == holding.pods.keys()
    assert held.census.count(WEB, ()) == fresh.count(WEB, held)
    assert held.census.count(EVERYBODY, (), leaving=False) == fresh.count(EVERYBODY, held, leaving=False)
    assert held.census.apart == fresh.apart


def test_a_count_that_nobody_asked_for_is_made_from_all_pods() -> None:
    census = Census()
    residents = [Resident(pod("1"), "eu"), Resident(pod("2", "db"), "eu"), Resident(pod("3"), "us", deleting=True)]
    assert census.count(WEB, residents) == {"eu": 1, "us": 1}
    assert census.count(WEB, residents, leaving=False) == {"eu": 1}
