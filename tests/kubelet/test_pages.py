"""Usage of pods in the answers of a virtual node."""

from datetime import UTC, datetime, timedelta

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from agent.kubelet import pages
from agent.kubelet.counters import Counters, Reading, Sample
from agent.kubelet.usage import NodeUsage, PodUsage, seconds

AT = datetime(2026, 1, 1, 12, 0, 15, tzinfo=UTC)
STARTED = AT - timedelta(hours=1)
MAIN = Reading(AT, 250_000_000, 64 << 20, 12_500_000_000)
SIDE = Reading(AT, 1_000_000, 8 << 20, 500_000_000)
WEB = PodUsage("ns", "web", "uid-1", STARTED, {"main": (MAIN, STARTED), "side": (SIDE, None)})
USAGE = NodeUsage((WEB,), 20_000_000_000)
NOTHING = NodeUsage((), 0)


def read(text: str) -> dict[tuple[str, str], tuple[float, float | None]]:
    """Return value and time by name and container (or pod)."""
    found = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            time = float(each.timestamp) if each.timestamp is not None else None
            found[each.name, each.labels.get("container", each.labels.get("pod", ""))] = (each.value, time)
    return found


def test_resource_metrics_are_counters_with_the_times_of_the_samples() -> None:
    found = read(pages.resource(USAGE, AT + timedelta(seconds=9)))
    time = AT.timestamp()
    assert found["container_cpu_usage_seconds_total", "main"] == (12.5, time)
    assert found["container_memory_working_set_bytes", "side"] == (float(8 << 20), time)
    assert found["container_start_time_seconds", "main"][0] == STARTED.timestamp()
    assert ("container_start_time_seconds", "side") not in found
    assert found["pod_cpu_usage_seconds_total", "web"] == (13.0, time)
    assert found["node_cpu_usage_seconds_total", ""] == (20.0, time)
    assert found["node_memory_working_set_bytes", ""] == (float(72 << 20), time)
    assert found["resource_scrape_error", ""][0] == 0


def test_types_are_those_that_metrics_server_expects() -> None:
    types = {family.name: family.type for family in text_string_to_metric_families(pages.resource(USAGE, AT))}
    assert types["container_cpu_usage_seconds"] == types["node_cpu_usage_seconds"] == "counter"
    assert types["container_memory_working_set_bytes"] == "gauge"


def test_metrics_server_leaves_out_no_pod_whose_containers_sleep() -> None:
    counters = Counters()
    keys = [("uid-1", "chaperon", name) for name in ("main", "side")]
    found = counters.take([(key, Sample(AT, 15.0, 0, 4096)) for key in keys], {("uid-1", "chaperon")})
    pod = PodUsage("ns", "web", "uid-1", STARTED, {key[2]: (reading, STARTED) for key, reading in found.items()})
    shown = read(pages.resource(NodeUsage((pod,), counters.node), AT))
    # As in metrics-server's decodeBatch: zero values are ignored, and each container needs all three.
    for name in ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes"):
        assert all(int(shown[name, key[2]][0] * 1e9) > 0 for key in keys)
    assert int(shown["node_cpu_usage_seconds_total", ""][0] * 1e9) > 0


def test_without_usage_the_answer_is_empty_but_valid() -> None:
    found = read(pages.resource(NOTHING, AT))
    assert found["node_memory_working_set_bytes", ""] == (0.0, AT.timestamp())
    assert not any(name.startswith("container_") for name, _ in found)
    summary = pages.summary("node", NOTHING, AT)
    assert summary["node"]["nodeName"] == "node"
    assert summary["pods"] == []


def test_a_target_that_could_not_be_asked_shows_as_a_scrape_error() -> None:
    assert read(pages.resource(NodeUsage((), 0, "no"), AT))["scrape_error", ""][0] == 1


def test_the_summary_names_proxy_pods() -> None:
    summary = pages.summary("node", USAGE, AT)
    (pod,) = summary["pods"]
    assert pod["podRef"] == {"name": "web", "namespace": "ns", "uid": "uid-1"}
    assert pod["cpu"] == {
        "time": "2026-01-01T12:00:15Z",
        "usageNanoCores": 251_000_000,
        "usageCoreNanoSeconds": 13_000_000_000,
    }
    assert pod["memory"]["workingSetBytes"] == 72 << 20
    assert [container["name"] for container in pod["containers"]] == ["main", "side"]
    assert summary["node"]["cpu"]["usageCoreNanoSeconds"] == 20_000_000_000
    assert msgspec.json.encode(summary)


def test_a_list_of_pods_is_one_document() -> None:
    assert msgspec.json.decode(pages.pod_list([b'{"a":1}', b'{"b":2}']))["items"] == [{"a": 1}, {"b": 2}]
    assert msgspec.json.decode(pages.pod_list([]))["kind"] == "PodList"


def test_names_are_escaped_in_labels() -> None:
    assert read(pages.metrics('a"b\\c', 1, 2))["kubelet_active_pods", ""][0] == 2


def test_windows_are_read_as_go_writes_them() -> None:
    found = [seconds(text) for text in ("15s", "1m0s", "15.5s", "1h0m1s", "", "soon", "0s", "9" * 400 + "h")]
    assert found == [15.0, 60.0, 15.5, 3601.0, 30.0, 30.0, 30.0, 30.0]
