"""Free capacity of nodes, compared with a naive reference that assigns pods to single nodes."""

from hypothesis import given
from hypothesis import strategies as st

from agent.ranking.node_fit import NodeFit
from agent.ranking.snapshot import Free, PodInfo, Shape, TargetInfo, amounts
from tests.ranking.pods_and_targets import free, pod_info, shape, target_info, telling


def rejection(wanted: PodInfo, target: TargetInfo, *assumed: PodInfo) -> str:
    node_fit = NodeFit(target)
    for each in assumed:
        node_fit.take(each.template)
    found = node_fit.reject(wanted.template)
    return f"{found.reason}: {found.message}" if found else ""


def test_a_pod_needs_one_node_that_has_room_now() -> None:
    target = target_info("eu", shapes=(telling(free("300m", 5), free("100m")),))
    assert rejection(pod_info(cpu="300m"), target) == ""
    assert rejection(pod_info(cpu="301m"), target) == "NoRoom: insufficient cpu on every node (largest free 300m)"


def test_what_no_node_ever_has_is_another_reason() -> None:
    target = target_info("eu", shapes=(telling(free("300m")),))
    assert rejection(pod_info(cpu="5"), target) == "TooBig: insufficient cpu on every node (largest 4)"


def test_what_is_not_told_of_free_amounts_is_nothing() -> None:
    left = Free(amounts({"cpu": "1", "pods": "1"}))
    target = target_info(
        "eu", shapes=(Shape({}, (), False, amounts({"cpu": "4", "memory": "8Gi", "pods": "9"}), 1, (left,)),)
    )
    assert rejection(pod_info(memory="1Mi"), target) == "NoRoom: insufficient memory on every node (largest free 0)"


def test_memory_is_written_as_users_write_it() -> None:
    target = target_info("eu", shapes=(telling(free("4", memory="512Mi")),))
    assert rejection(pod_info(memory="1Gi"), target).endswith("memory on every node (largest free 512Mi)")


def test_each_resource_may_be_free_but_never_on_one_node() -> None:
    target = target_info("eu", shapes=(telling(free("4", memory="1Gi"), free("1", memory="8Gi")),))
    assert "no single node has room" in rejection(pod_info(cpu="4", memory="8Gi"), target)


def test_free_room_on_nodes_that_do_not_match_is_none() -> None:
    target = target_info(
        "eu", shapes=(telling(free("4"), labels={"disk": "hdd"}), telling(free("1"), labels={"disk": "ssd"}))
    )
    on_ssd = pod_info(source={"nodeSelector": {"disk": "ssd"}}, cpu="2")
    assert rejection(on_ssd, target) == "NoRoom: insufficient cpu on every node (largest free 1)"


def with_port(number: int, **fields: object) -> PodInfo:
    container = {"name": "c", "ports": [{"hostPort": number, "containerPort": 1, **fields}]}
    return pod_info(spec={"containers": [container]})


def test_a_host_port_that_is_taken_everywhere_is_a_reason_of_its_own() -> None:
    target = target_info("eu", shapes=(telling(free("4", 2, ports=("TCP/80",))),))
    assert rejection(with_port(80), target) == "HostPortTaken: host port TCP/80 is taken on every node with room"
    assert rejection(with_port(80, protocol="UDP"), target) == ""
    assert rejection(with_port(81), target) == ""


def test_pods_in_flight_take_host_ports() -> None:
    target = target_info("eu", shapes=(telling(free("4", 2)),))
    assert rejection(with_port(80), target, with_port(80)) == ""
    assert rejection(with_port(80), target, with_port(80), with_port(80)).startswith("HostPortTaken")


def test_where_a_target_does_not_tell_what_is_free_pods_in_flight_take_nothing() -> None:
    target = target_info("eu", shapes=(shape(cpu="4"),))
    assert rejection(pod_info(cpu="4"), target, *[pod_info(cpu="4")] * 5) == ""


def test_where_a_target_tells_only_its_best_nodes_pods_in_flight_take_nothing() -> None:
    told = telling(free("4"))
    target = target_info("eu", shapes=(Shape(told.labels, (), False, told.allocatable, 50, told.free),))
    assert rejection(pod_info(cpu="4"), target, pod_info(cpu="4")) == ""
    assert target.totals.free is None


def test_cordoned_nodes_have_no_room() -> None:
    left = free("4")
    target = target_info("eu", shapes=(Shape({}, (), True, left.amounts, 1, (left,)), telling(free("1"))))
    assert rejection(pod_info(cpu="2"), target) != ""


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
    target = target_info("eu", shapes=(telling(*(free(str(cpu)) for cpu in nodes), cpu="8"),))
    found = rejection(pod_info(cpu=str(size)), target, *(pod_info(cpu=str(pod)) for pod in pods))
    assert (found == "") == (max(left) >= size)


@given(nodes, st.integers(1, 4), st.integers(0, 30))
def test_a_burst_of_equal_pods_never_overshoots_and_uses_every_node(nodes: list[int], size: int, more: int) -> None:
    room = sum(cpu // size for cpu in nodes)
    node_fit = NodeFit(target_info("eu", shapes=(telling(*(free(str(cpu)) for cpu in nodes), cpu="8"),)))
    template, sent = pod_info(cpu=str(size)).template, 0
    for _ in range(more):
        if node_fit.fits(template):
            node_fit.take(template)
            sent += 1
    assert sent == min(more, room)
