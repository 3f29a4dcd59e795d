from typing import Any

from hack.lab.benchmarks.endpointtimes import PROXIES, REPORTS, EndpointTimes, ready_address, ready_endpoints
from hack.lab.benchmarks.services import ServiceLoad, order, shared

A, B = ("team", "a"), ("team", "b")


def times_of_two_pods() -> EndpointTimes:
    """Return times of a delegate per target, Ready at 1 s and 2 s. The source has both endpoints at 4 s, us at
    5 s, eu at 3 s."""
    times = EndpointTimes(("cd", "us", "eu"))
    times.delegate("us", A, "web", "", 0.5)
    times.delegate("us", A, "web", "10.1.0.1", 1.0)
    times.delegate("eu", B, "web", "10.2.0.1", 2.0)
    times.slice("eu", A, "web", {"10.1.0.1", "10.2.0.1"}, 3.0)
    times.slice("cd", A, "web", {"10.1.0.1", "10.2.0.1"}, 4.0)
    times.slice("us", A, "web", {"10.1.0.1"}, 4.5)
    times.slice("us", B, "web", {"10.2.0.1"}, 5.0)
    return times


def test_time_counts_from_the_last_delegate_ready_until_the_last_cluster_has_all_endpoints() -> None:
    times = times_of_two_pods()
    assert (times.ready, times.last_ready, times.last_right) == (2, 2.0, 5.0)
    assert times.lags == [3.0]
    assert times.wrong() == []


def test_each_step_counts_from_the_last_delegate_ready() -> None:
    times = times_of_two_pods()
    times.step(PROXIES, A, "web", "10.1.0.1", 2.5)
    times.step(PROXIES, B, "web", "", 2.6)
    times.step(PROXIES, B, "web", "10.2.0.1", 2.75)
    for pod, address in ((A, "10.1.0.1"), (B, "10.2.0.1")):
        times.step(REPORTS, pod, "web", address, 2.25)
    found = [times.lags_of(place) for place in (REPORTS, PROXIES, "cd", "us", "eu")]
    assert found == [[0.25], [0.75], [2.0], [3.0], [1.0]]


def test_a_late_proxy_pod_makes_no_slice_wrong() -> None:
    times = times_of_two_pods()
    times.step(PROXIES, A, "web", "10.1.0.1", 9.0)
    assert times.wrong() == []
    assert times.last_right == 5.0


def test_every_second_round_is_measured_in_the_reverse_order() -> None:
    assert order(["before", "this"], 3) == ["before", "this", "this", "before", "before", "this"]


def test_a_change_of_another_field_of_a_ready_delegate_is_no_new_time() -> None:
    times = times_of_two_pods()
    times.delegate("us", A, "web", "10.1.0.1", 9.0)
    assert times.last_ready == 2.0


def test_slices_that_are_seen_before_the_delegate_are_right_at_once() -> None:
    times = EndpointTimes(("cd",))
    times.slice("cd", A, "web", {"10.1.0.1"}, 1.0)
    assert times.wrong() == ["cd (0 missing, 1 too many)"]
    times.delegate("us", A, "web", "10.1.0.1", 1.5)
    assert times.lags == [0.0]


def test_endpoints_that_are_missing_or_left_over_are_wrong() -> None:
    times = times_of_two_pods()
    times.slice("cd", A, "web", {"10.1.0.1", "10.9.0.1"}, 6.0)
    assert times.wrong() == ["cd (1 missing, 1 too many)"]
    times.slice("cd", A, "web", {"10.1.0.1", "10.2.0.1"}, 7.0)
    assert times.last_right == 7.0
    times.delegate("eu", B, "web", "", 8.0)
    assert times.wrong() == [f"{name} (0 missing, 1 too many)" for name in ("cd", "us", "eu")]


def test_only_ready_endpoints_count() -> None:
    conditions = {"a": True, "b": False, "c": True}
    endpoints = [{"addresses": [name], "conditions": {"ready": ready}} for name, ready in conditions.items()]
    assert ready_endpoints({"endpoints": endpoints}) == {"a", "c"}
    assert ready_endpoints({"endpoints": None}) == set()


def test_a_pod_counts_when_it_is_ready() -> None:
    status: dict[str, Any] = {"podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    assert ready_address({"status": status}) == "10.1.0.1"
    assert ready_address({"status": {"podIP": "10.1.0.1"}}) == ""


def test_only_writes_for_shared_services_count_as_theirs() -> None:
    writes = {"agent PATCH services 200": 2.0, "agent PUT endpointslices/status 409": 3.0, "agent POST pods 201": 4.0}
    assert shared(writes) == 5.0


def test_every_service_has_the_same_number_of_pods() -> None:
    assert ServiceLoad(1000, 10_000).each == 10
    assert ServiceLoad(100, 1099).each == 10
