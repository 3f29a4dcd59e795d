"""Usage of a virtual node's delegates, read on demand from metrics.k8s.io of its target.

If the target does not serve metrics.k8s.io, the answer is empty and not an error.
"""

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from agent.api import names
from agent.api.kinds import POD_METRICS
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import UNDECODABLE, KubeError, NotFound
from agent.kube.store import Object
from agent.kubelet.counters import Counters, Key, Reading, Sample
from agent.kubelet.memory import Memory
from agent.kubelet.pods import Delegate, Pods, refusal
from agent.model.quantity import InvalidQuantity, Quantity

log = logging.getLogger(__name__)

CACHE_SECONDS = 5.0
_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?", re.ASCII)
_DEFAULT_WINDOW = 30.0


class _Usage(msgspec.Struct):
    cpu: str = "0"
    memory: str = "0"


class _Container(msgspec.Struct):
    name: str = ""
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _PodMetrics(msgspec.Struct):
    metadata: _Metadata
    timestamp: str = ""
    window: str = ""
    containers: list[_Container] | None = None


class _Running(msgspec.Struct, rename="camel"):
    started_at: str | None = None


class _State(msgspec.Struct):
    running: _Running | None = None


class _ContainerStatus(msgspec.Struct):
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    ephemeral_container_statuses: list[_ContainerStatus] | None = None


class _Pod(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_PodMetrics)
_pod_decoder = msgspec.json.Decoder(_Pod)


class PodUsage(msgspec.Struct, frozen=True):
    """Usage of a proxy pod's delegate, by container."""

    namespace: str
    name: str
    uid: str
    started: datetime | None
    containers: dict[str, tuple[Reading, datetime | None]]
    """Reading, and when the container started."""


class NodeUsage(msgspec.Struct, frozen=True):
    """Usage of all delegates of a virtual node."""

    pods: tuple[PodUsage, ...]
    nanoseconds: int
    """Counter of the node, in nanoseconds of a core; includes deleted pods."""
    failed: str = ""
    """Why nothing could be read, empty when it could, or when the target does not serve it."""


class Usage:
    """Usage by virtual node."""

    def __init__(self, deps: Deps, pods: Pods) -> None:
        self._deps = deps
        self._pods = pods
        self._known: Memory[str, NodeUsage] = Memory(CACHE_SECONDS)
        self._counters: dict[str, Counters] = {}

    async def of(self, node: str) -> NodeUsage:
        """Return the usage of a virtual node, a few seconds old at most."""
        return await self._known.get(node, lambda: self._read(node))

    def forget(self, node: str) -> None:
        """Drop the counters of a deleted node."""
        self._counters.pop(node, None)

    async def _read(self, node: str) -> NodeUsage:
        counters = self._counters.setdefault(node, Counters())
        target = self._pods.target(node)
        try:
            metrics = await self._list(target)
        except NotFound:
            return NodeUsage((), counters.node)
        except KubeError as error:
            message = refusal(target, target.namespace, error, "list", "pods.metrics.k8s.io")[1]
            log.warning("usage of node %s: %s", node, message)
            return NodeUsage((), counters.node, message)
        delegates = list(self._pods.delegates(node))
        samples = {key: sample for delegate in delegates for key, sample in _samples(delegate, metrics)}
        there = {(delegate.proxy.uid, delegate.chaperon_uid) for delegate in delegates}
        readings: dict[tuple[str, str], dict[str, Reading]] = {}
        for (*pod, container), reading in counters.take(samples.items(), there).items():
            readings.setdefault((pod[0], pod[1]), {})[container] = reading
        pods = tuple(
            _pod(delegate.proxy, found)
            for delegate in delegates
            if (found := readings.get((delegate.proxy.uid, delegate.chaperon_uid)))
        )
        return NodeUsage(pods, counters.node)

    async def _list(self, target: Target) -> dict[tuple[str, str], _PodMetrics]:
        labels = names.children_of(self._deps.cluster_uid)
        _, items = await target.port.list_raw(POD_METRICS, target.namespace or None, labels=labels)
        found = {}
        for item in items:
            with contextlib.suppress(*UNDECODABLE):
                metrics = _decoder.decode(item)
                found[metrics.metadata.namespace, metrics.metadata.name] = metrics
        return found


def _samples(delegate: Delegate, metrics: dict[tuple[str, str], _PodMetrics]) -> Iterator[tuple[Key, Sample]]:
    found = metrics.get((delegate.namespace, delegate.name))
    if found is None:
        return
    at = _time(found.timestamp)
    if at is None:
        return
    for container in found.containers or ():
        with contextlib.suppress(InvalidQuantity):
            cpu, memory = Quantity.of(container.usage.cpu), Quantity.of(container.usage.memory)
            sample = Sample(at, seconds(found.window), cpu.nano, memory.value)
            yield (delegate.proxy.uid, delegate.chaperon_uid, container.name), sample


def _pod(proxy: Object, readings: Mapping[str, Reading]) -> PodUsage:
    status = _pod_decoder.decode(proxy.raw).status
    groups = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    statuses = [each for group in groups for each in group or ()]
    started = {each.name: _time(each.state.running.started_at) for each in statuses if each.state.running is not None}
    containers = {name: (reading, started.get(name)) for name, reading in readings.items()}
    return PodUsage(proxy.namespace, proxy.name, proxy.uid, _time(status.start_time), containers)


def _time(text: str | None) -> datetime | None:
    try:
        return parse(text) if text else None
    except ValueError:
        return None


def seconds(text: str) -> float:
    """Return a Go duration such as `1m0s` or `15.03s` in seconds; 30 for invalid text."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return _DEFAULT_WINDOW
    hours, minutes, rest = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + rest or _DEFAULT_WINDOW
