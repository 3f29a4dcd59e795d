from typing import Any

from agent.api.kinds import ENDPOINT_SLICES
from agent.kube.client import encode
from agent.kube.store import Object
from hack.benchmarks.services import pod_address, told


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
