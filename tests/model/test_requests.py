from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.requests import amounts, host_ports, requests


def container(restart: str = "", **wanted: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "c", "resources": {"requests": wanted}}
    return found | ({"restartPolicy": restart} if restart else {})


def wanted(**quantities: str) -> dict[str, int]:
    return amounts({"pods": "1", **quantities})


def test_containers_add_up_and_the_pod_takes_one_of_the_pods() -> None:
    spec = {"containers": [container(cpu="100m"), container(cpu="1", memory="1Gi")]}
    assert requests(spec) == wanted(cpu="1100m", memory="1Gi")


def test_a_container_without_requests_asks_for_nothing() -> None:
    assert requests({"containers": [{"name": "c"}, {"name": "d", "resources": None}]}) == wanted()


def test_an_init_container_counts_only_where_it_is_larger_than_all_that_follow() -> None:
    spec = {"containers": [container(cpu="1", memory="1Gi")], "initContainers": [container(cpu="3", memory="1Mi")]}
    assert requests(spec) == wanted(cpu="3", memory="1Gi")


def test_init_containers_run_one_after_another() -> None:
    spec = {"containers": [container(cpu="1")], "initContainers": [container(cpu="2"), container(cpu="2")]}
    assert requests(spec) == wanted(cpu="2")


def test_a_sidecar_counts_beside_the_containers_and_beside_later_init_containers() -> None:
    sidecar = container("Always", cpu="1")
    assert requests({"containers": [container(cpu="1")], "initContainers": [sidecar]}) == wanted(cpu="2")
    later = {"containers": [container(cpu="1")], "initContainers": [sidecar, container(cpu="3")]}
    assert requests(later) == wanted(cpu="4")
    earlier = {"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), sidecar]}
    assert requests(earlier) == wanted(cpu="3")


def test_what_is_asked_for_the_pod_as_a_whole_replaces_the_sums() -> None:
    spec = {"containers": [container(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "5"}}}
    assert requests(spec) == wanted(cpu="5", memory="1Gi")


def test_overhead_comes_on_top_of_everything() -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "250m"}}
    assert requests(spec) == wanted(cpu="2250m")


def test_a_request_of_zero_needs_no_node_that_has_the_resource() -> None:
    assert requests({"containers": [container(**{"example.com/gpu": "0"})]}) == wanted()


@pytest.mark.parametrize("quantities", [None, {}])
def test_nothing_is_nothing(quantities: dict[str, str] | None) -> None:
    assert amounts(quantities) == {}


sizes = st.lists(st.integers(0, 9), max_size=4)


@given(sizes, sizes, st.lists(st.booleans(), min_size=4, max_size=4))
def test_requests_equal_the_most_that_is_ever_needed_at_one_moment(
    mains: list[int], inits: list[int], sidecar: list[bool]
) -> None:
    running = peak = 0
    for size, stays in zip(inits, sidecar, strict=False):
        peak = max(peak, running + size)
        running += size if stays else 0
    peak = max(peak, running + sum(mains))
    spec = {
        "containers": [container(cpu=str(size)) for size in mains],
        "initContainers": [
            container("Always" if stays else "", cpu=str(size)) for size, stays in zip(inits, sidecar, strict=False)
        ],
    }
    assert requests(spec) == (wanted(cpu=str(peak)) if peak else wanted())


def running(name: str, has: str, allocated: str = "") -> dict[str, Any]:
    """Return the status of a container that runs with `has` cores."""
    status: dict[str, Any] = {"name": name, "resources": {"requests": {"cpu": has}}}
    return status | ({"allocatedResources": {"cpu": allocated}} if allocated else {})


REFUSED = [{"type": "Ready"}, {"type": "PodResizePending", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "reason": "Deferred"}]


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({}, "2", id="nothing is known yet"),
        pytest.param(
            {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]}, "2", id="no resources"
        ),
        pytest.param({"containerStatuses": [running("c", "1", "1")]}, "2", id="growing"),
        pytest.param({"containerStatuses": [running("c", "3", "2")]}, "3", id="shrinking, not yet done"),
        pytest.param({"containerStatuses": [running("c", "1", "4")]}, "4", id="shrinking, allocated more"),
        pytest.param({"containerStatuses": [running("other", "9")]}, "2", id="of another container"),
        pytest.param({"containerStatuses": [running("c", "1")], "conditions": DEFERRED}, "2", id="deferred"),
        pytest.param({"containerStatuses": [running("c", "1", "1")], "conditions": REFUSED}, "1", id="infeasible"),
    ],
)
def test_while_a_pod_is_resized_the_larger_amount_counts(status: dict[str, Any], cpu: str) -> None:
    assert requests({"containers": [container(cpu="2")]}, status) == wanted(cpu=cpu)


def test_sidecars_are_resized_but_other_init_containers_are_not() -> None:
    spec: dict[str, Any] = {"containers": [], "initContainers": [container("Always", cpu="1")]}
    status = {"initContainerStatuses": [running("c", "3")]}
    assert requests(spec, status) == wanted(cpu="3")
    assert requests({"containers": [], "initContainers": [container(cpu="1")]}, status) == wanted(cpu="1")


def test_a_pod_as_a_whole_is_resized() -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}}
    assert requests(spec, {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}) == wanted(cpu="3")
    assert requests(spec, {"resources": {}, "allocatedResources": {"cpu": "3"}}) == wanted(cpu="2")


def test_host_ports_of_containers_and_sidecars_count_and_those_of_init_containers_do_not() -> None:
    def listens(*ports: dict[str, Any], restart: str = "") -> dict[str, Any]:
        return container(restart) | {"ports": list(ports)}

    spec = {
        "containers": [listens({"containerPort": 1, "hostPort": 80}, {"containerPort": 2}), container()],
        "initContainers": [listens({"hostPort": 53, "protocol": "UDP"}, restart="Always"), listens({"hostPort": 9})],
    }
    assert host_ports(spec) == {"TCP/80", "UDP/53"}
    assert host_ports({}) == set()
