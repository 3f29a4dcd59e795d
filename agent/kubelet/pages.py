"""A kubelet's pages about pods and usage: JSON and Prometheus' text format. Pure."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from agent.base.clock import stamp
from agent.kubelet.counters import Reading
from agent.kubelet.usage import NodeUsage, PodUsage

_NANO = 10**9

Raw = dict[str, Any]


def pod_list(pods: Iterable[bytes]) -> bytes:
    """Return a PodList of pods as an API server gave them."""
    return b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[' + b",".join(pods) + b"]}"


def summary(node: str, usage: NodeUsage, now: datetime) -> Raw:
    """Return `/stats/summary` (the kubelet's stats/v1alpha1), with the values that metrics.k8s.io provides."""
    pods = [_pod(pod) for pod in usage.pods]
    found: Raw = {"nodeName": node, "startTime": None}
    if usage.pods:
        found.update(_stats([reading for pod in usage.pods for reading in _readings(pod)], usage.nanoseconds))
    else:
        found["cpu"] = {"time": stamp(now), "usageNanoCores": 0, "usageCoreNanoSeconds": usage.nanoseconds}
        found["memory"] = {"time": stamp(now), "usageBytes": 0, "workingSetBytes": 0}
    return {"node": found, "pods": pods}


def resource(usage: NodeUsage, now: datetime) -> str:
    """`/metrics/resource`, which metrics-server reads: times are those of the target's samples."""
    return "".join(_resource_lines(usage, now))


def metrics(node: str, running: int, pods: int) -> str:
    """`/metrics`: the little that is known without asking the target."""
    return "".join(
        (
            _head("kubelet_node_name", "gauge", "The node's name. The count is always 1."),
            f'kubelet_node_name{{node="{_escape(node)}"}} 1\n',
            _head("kubelet_active_pods", "gauge", "Pods that are bound to this virtual node."),
            f"kubelet_active_pods {pods}\n",
            _head("kubelet_running_pods", "gauge", "Pods that run."),
            f"kubelet_running_pods {running}\n",
        )
    )


def _pod(pod: PodUsage) -> Raw:
    containers = [
        {"name": name, "startTime": stamp(started) if started else None, **_stats([reading], reading.nanoseconds)}
        for name, (reading, started) in pod.containers.items()
    ]
    readings = _readings(pod)
    return {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": stamp(pod.started) if pod.started else None,
        "containers": containers,
        **_stats(readings, sum(reading.nanoseconds for reading in readings)),
    }


def _stats(readings: list[Reading], nanoseconds: int) -> Raw:
    time = stamp(max(reading.at for reading in readings))
    memory = sum(reading.memory for reading in readings)
    nanocores = sum(reading.nanocores for reading in readings)
    return {
        "cpu": {"time": time, "usageNanoCores": nanocores, "usageCoreNanoSeconds": nanoseconds},
        "memory": {"time": time, "usageBytes": memory, "workingSetBytes": memory},
    }


def _resource_lines(usage: NodeUsage, now: datetime) -> Iterator[str]:
    containers = [
        (f'container="{_escape(name)}",{_labels(pod)}', reading, started)
        for pod in usage.pods
        for name, (reading, started) in pod.containers.items()
    ]
    yield _head("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the container")
    for labels, reading, _ in containers:
        yield _line("container_cpu_usage_seconds_total", labels, reading.nanoseconds / _NANO, reading.at)
    yield _head("container_memory_working_set_bytes", "gauge", "Current working set of the container in bytes")
    for labels, reading, _ in containers:
        yield _line("container_memory_working_set_bytes", labels, reading.memory, reading.at)
    yield _head("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds")
    for labels, _, started in containers:
        if started is not None:
            yield f"container_start_time_seconds{{{labels}}} {_number(started.timestamp())}\n"
    yield from _sums(usage, now)
    yield _head("resource_scrape_error", "gauge", "1 if the target could not be asked, 0 otherwise")
    yield f"resource_scrape_error {1 if usage.failed else 0}\n"
    yield _head("scrape_error", "gauge", "1 if the target could not be asked, 0 otherwise")
    yield f"scrape_error {1 if usage.failed else 0}\n"


def _sums(usage: NodeUsage, now: datetime) -> Iterator[str]:
    pods = [(_labels(pod), _readings(pod)) for pod in usage.pods]
    everything = [reading for _, readings in pods for reading in readings]
    yield _head("pod_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the pod")
    for labels, readings in pods:
        total = sum(reading.nanoseconds for reading in readings)
        yield _line("pod_cpu_usage_seconds_total", labels, total / _NANO, _latest(readings, now))
    yield _head("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes")
    for labels, readings in pods:
        memory = sum(reading.memory for reading in readings)
        yield _line("pod_memory_working_set_bytes", labels, memory, _latest(readings, now))
    yield _head("node_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the delegates")
    yield _line("node_cpu_usage_seconds_total", "", usage.nanoseconds / _NANO, _latest(everything, now))
    yield _head("node_memory_working_set_bytes", "gauge", "Current working set of the delegates in bytes")
    memory = sum(reading.memory for reading in everything)
    yield _line("node_memory_working_set_bytes", "", memory, _latest(everything, now))


def _readings(pod: PodUsage) -> list[Reading]:
    return [reading for reading, _ in pod.containers.values()]


def _latest(readings: list[Reading], now: datetime) -> datetime:
    return max((reading.at for reading in readings), default=now)


def _labels(pod: PodUsage) -> str:
    return f'namespace="{_escape(pod.namespace)}",pod="{_escape(pod.name)}"'


def _head(name: str, kind: str, text: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _line(name: str, labels: str, value: float, at: datetime) -> str:
    return f"{name}{'{' + labels + '}' if labels else ''} {_number(value)} {round(at.timestamp() * 1000)}\n"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
