"""What nodes have left, against a naive reference that puts pods onto single nodes."""

from hypothesis import given
from hypothesis import strategies as st

from agent.scheduling.rooms import Rooms
from agent.scheduling.snapshot import Demand, Free, Place, Shape, amounts
from tests.scheduling.places import demand, free, place, shape, telling


def verdict(wanted: Demand, target: Place, *flying: Demand) -> str:
    rooms = Rooms(target)
    for each in flying:
        rooms.take(each.wants)
    found = rooms.verdict(wanted.wants)
    return f"{found.reason}: {found.message}" if found else ""


def test_a_pod_needs_one_node_that_has_room_now() -> None:
    target = place("eu", shapes=(telling(free("300m", 5), free("100m")),))
    assert verdict(demand(cpu="300m"), target) == ""
    assert verdict(demand(cpu="301m"), target) == "NoRoom: insufficient cpu on every node (largest free 300m)"


def test_what_no_node_ever_has_is_another_reason() -> None:
    target = place("eu", shapes=(telling(free("300m")),))
    assert verdict(demand(cpu="5"), target) == "TooBig: insufficient cpu on every node (largest 4)"


def test_what_is_not_told_of_free_amounts_is_nothing() -> None:
    left = Free(amounts({"cpu": "1", "pods": "1"}))
    target = place(
        "eu", shapes=(Shape({}, (), False, amounts({"cpu": "4", "memory": "8Gi", "pods": "9"}), 1, (left,)),)
    )
    assert verdict(demand(memory="1Mi"), target) == "NoRoom: insufficient memory on every node (largest free 0)"


def test_memory_is_written_as_users_write_it() -> None:
    target = place("eu", shapes=(telling(free("4", memory="512Mi")),))
    assert verdict(demand(memory="1Gi"), target).endswith("memory on every node (largest free 512Mi)")


def test_each_resource_may_be_free_but_never_on_one_node() -> None:
    target = place("eu", shapes=(telling(free("4", memory="1Gi"), free("1", memory="8Gi")),))
    assert "no single node has room" in verdict(demand(cpu="4", memory="8Gi"), target)


def test_free_room_on_nodes_that_do_not_match_is_none() -> None:
    target = place(
        "eu", shapes=(telling(free("4"), labels={"disk": "hdd"}), telling(free("1"), labels={"disk": "ssd"}))
    )
    on_ssd = demand(source={"nodeSelector": {"disk": "ssd"}}, cpu="2")
    assert verdict(on_ssd, target) == "NoRoom: insufficient cpu on every node (largest free 1)"


def with_port(number: int, **fields: object) -> Demand:
    container = {"name": "c", "ports": [{"hostPort": number, "containerPort": 1, **fields}]}
    return demand(spec={"containers": [container]})


def test_a_host_port_that_is_taken_everywhere_is_a_reason_of_its_own() -> None:
    target = place("eu", shapes=(telling(free("4", 2, ports=("TCP/80",))),))
    assert verdict(with_port(80), target) == "HostPortTaken: host port TCP/80 is taken on every node with room"
    assert verdict(with_port(80, protocol="UDP"), target) == ""
    assert verdict(with_port(81), target) == ""


def test_pods_in_flight_take_host_ports() -> None:
    target = place("eu", shapes=(telling(free("4", 2)),))
    assert verdict(with_port(80), target, with_port(80)) == ""
    assert verdict(with_port(80), target, with_port(80), with_port(80)).startswith("HostPortTaken")


def test_where_a_target_does_not_tell_what_is_free_pods_in_flight_take_nothing() -> None:
    target = place("eu", shapes=(shape(cpu="4"),))
    assert verdict(demand(cpu="4"), target, *[demand(cpu="4")] * 5) == ""


def test_where_a_target_tells_only_its_best_nodes_pods_in_flight_take_nothing() -> None:
    told = telling(free("4"))
    target = place("eu", shapes=(Shape(told.labels, (), False, told.allocatable, 50, told.free),))
    assert verdict(demand(cpu="4"), target, demand(cpu="4")) == ""
    assert target.free is None


def test_cordoned_nodes_have_no_room() -> None:
    left = free("4")
    target = place("eu", shapes=(Shape({}, (), True, left.amounts, 1, (left,)), telling(free("1"))))
    assert verdict(demand(cpu="2"), target) != ""


nodes = st.lists(st.integers(0, 8), min_size=1, max_size=6)
pods = st.lists(st.integers(1, 8), max_size=8)


@given(nodes, pods, st.integers(1, 8))
def test_room_is_what_is_left_when_pods_in_flight_go_to_the_roomiest_nodes(
    nodes: list[int], pods: list[int], size: int
) -> None:
    left = list(nodes)
    for pod in pods:
        roomiest = max(range(len(left)), key=lambda index: left[index])
        if left[roomiest] >= pod:
            left[roomiest] -= pod
    target = place("eu", shapes=(telling(*(free(str(cpu)) for cpu in nodes), cpu="8"),))
    found = verdict(demand(cpu=str(size)), target, *(demand(cpu=str(pod)) for pod in pods))
    assert (found == "") == (max(left) >= size)


@given(nodes, st.integers(1, 4), st.integers(0, 30))
def test_a_burst_of_equal_pods_never_overshoots_and_uses_every_node(nodes: list[int], size: int, more: int) -> None:
    room = sum(cpu // size for cpu in nodes)
    rooms = Rooms(place("eu", shapes=(telling(*(free(str(cpu)) for cpu in nodes), cpu="8"),)))
    wants, sent = demand(cpu=str(size)).wants, 0
    for _ in range(more):
        if rooms.fits(wants):
            rooms.take(wants)
            sent += 1
    assert sent == min(more, room)
