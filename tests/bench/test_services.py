from typing import Any

from agent.api.kinds import ENDPOINT_SLICES
from agent.kube.client import encode
from agent.kube.store import Object
from hack.benchmarks.services import ServiceLoad, pod_address, shared, told


def slice_of(service: str, **endpoints: bool) -> Object:
    manifest: dict[str, Any] = {
        "metadata": {"name": "a", "labels": {"kubernetes.io/service-name": service}},
        "endpoints": [{"addresses": [name], "conditions": {"ready": ready}} for name, ready in endpoints.items()],
    }
    return Object(ENDPOINT_SLICES, encode(manifest))


def test_only_ready_endpoints_count() -> None:
    assert told(slice_of("web", a=True, b=False, c=True)) == {("web", "a"), ("web", "c")}
    assert told(slice_of("db")) == set()


def test_a_pod_counts_when_it_is_ready() -> None:
    status: dict[str, Any] = {"podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    assert pod_address({"status": status}) == "10.1.0.1"
    assert pod_address({"status": {"podIP": "10.1.0.1"}}) == ""


def test_only_writes_for_shared_services_count_as_theirs() -> None:
    writes = {"agent PATCH services 200": 2.0, "agent PUT endpointslices/status 409": 3.0, "agent POST pods 201": 4.0}
    assert shared(writes) == 5.0


def test_every_service_has_the_same_number_of_pods() -> None:
    assert ServiceLoad(1000, 10_000).each == 10
    assert ServiceLoad(100, 1099).each == 10
