"""Two clusters on real nodes with gateways installed by the chart, and frontends that ask from within pods."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest

from agent.api.kinds import ENDPOINT_SLICES, PODS, SERVICES, SOURCES, TARGETS
from agent.api.names import LABEL_SERVICE_NAME, LABEL_SLICE_MANAGED_BY, links
from agent.api.roles import OPTIONAL_FEATURES
from hack.lab.sandbox import SandboxError, network, process
from hack.lab.sandbox.realnode import cgroups
from tests.chart.helm import NAMESPACE
from tests.e2e import shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.fleets import AGENT_FLAGS
from tests.e2e.installed import Installed
from tests.e2e.manifests import DEPLOYMENTS, ELECT
from tests.e2e.traffic import Traffic
from tests.gateway import datagrammer, keeper, streamer

Raw = dict[str, Any]

MARKS = [
    pytest.mark.seldom,
    pytest.mark.cluster,
    pytest.mark.realnodes,
    pytest.mark.e2e,
    pytest.mark.timeout(1200),
    pytest.mark.asyncio(loop_scope="module"),
]
"""Marks of tests that keep such clusters for a whole file."""
CLUSTERS = ("cd", "us")
IMAGE = {"image": "flotilla.local/busybox:1", "imagePullPolicy": "Never"}
FRONTEND = "frontend"
SLEEP = ["sleep", "100000"]
PATIENCE_SECONDS = 180.0
RATE = 20.0
GATEWAY_PODS = "app.kubernetes.io/component=gateway"


@contextlib.asynccontextmanager
async def fleet_of_two(
    directory: Path,
    pod_network: Literal["own", "same"],
    *values: str,
    ip_family: str = "ipv4",
    reserve: bool = False,
) -> AsyncIterator[Fleet]:
    """Source cd and target us, each with the chart installed.

    :param values: of the chart, as KEY=VALUE
    :param reserve: True for mode `reserve`, with a candidate scheduler in each cluster
    """
    images = directory / "images"
    images.mkdir()
    sandbox = Installed(
        directory / "two",
        CLUSTERS,
        "real:1",
        images=images,
        gateways=True,
        pod_network=pod_network,
        ip_family=ip_family,
        agent_flags=(*AGENT_FLAGS, *(["--scheduling=reserve"] if reserve else [])),
        candidate_scheduler=reserve,
        chart_values=values,
    )
    try:
        async with sandbox:
            fleet = Fleet(sandbox)
            try:
                yield fleet
            finally:
                await fleet.close()
    finally:
        shutil.rmtree(images)


@contextlib.asynccontextmanager
async def allowed(fleet: Fleet) -> AsyncIterator[str]:
    """Create a namespace whose Services may be shared by gateways, with a frontend in every cluster."""
    async with fleet.namespace(("us",)) as namespace:
        await fleet.clients["us"].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, namespace)
        for cluster in CLUSTERS:
            await fleet.clients[cluster].create(PODS, pod(FRONTEND, SLEEP), namespace)
        for cluster in CLUSTERS:
            await running(fleet, namespace, cluster, FRONTEND)
        yield namespace


def pod(name: str, command: list[str]) -> Raw:
    container = {"name": "main", **IMAGE, "command": command}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def serving(name: str, replicas: int, says: str = "$(hostname)", *, elect: bool = False) -> Raw:
    """Return a Deployment whose pods answer with their name or another text."""
    script = f"mkdir /www; echo {says} > /www/index.html; exec httpd -f -p 8080 -h /www"
    made = pod(name, ["sh", "-c", script])
    # A busy machine may answer late, which must not make a pod unready.
    probe = {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1, "timeoutSeconds": 10}
    made["spec"]["containers"][0]["readinessProbe"] = probe
    metadata = {"labels": {"app": name}, "annotations": {ELECT: ""} if elect else {}}
    template = {"metadata": metadata, "spec": made["spec"]}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name}, "spec": wanted}


async def running(fleet: Fleet, namespace: str, cluster: str, name: str) -> Raw:
    """Return a pod, once it runs and has an address."""

    async def probe() -> Raw:
        found = await fleet.clients[cluster].get(PODS, name, namespace)
        return found if found["status"].get("phase") == "Running" and found["status"].get("podIP") else {}

    return await fleet.until(f"{name} runs in {cluster}", probe, about=namespace, seconds=PATIENCE_SECONDS)


async def delegate(fleet: Fleet, namespace: str, app: str) -> Raw:
    """Return the ready pod in us of an app with one pod."""

    async def probe() -> Raw:
        proxies = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, app)}
        found = await fleet.delegates(namespace)
        ready = [pod for uid, (_, pod) in found.items() if uid in proxies and shared.is_ready(pod)]
        return ready[0] if len(ready) == 1 else {}

    return await fleet.until(f"{app} is ready", probe, about=namespace, seconds=PATIENCE_SECONDS)


@contextlib.asynccontextmanager
async def keeper_and_streamer(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """Create a Service whose pod in us answers by line at its first port, and accepts long streams at its last
    one."""
    name = "tcp"
    ports = [{"name": "lines", "port": 80, "targetPort": 8082}, {"name": "streams", "port": 81, "targetPort": 8083}]
    await fleet.source.create(SERVICES, shared.service(name, ports=ports), namespace)
    await fleet.source.create(DEPLOYMENTS, serving(name, 1, elect=True), namespace)
    process = pids(fleet, "us", "httpd", (await delegate(fleet, namespace, name))["metadata"]["uid"])[0]
    async with (
        answering(process, 8082, "us", program=keeper),
        answering(process, 8083, program=streamer),
    ):
        yield name


async def restarted(fleet: Fleet, cluster: str, pod: Raw) -> None:
    """Wait until a gateway pod whose Envoy has ended is ready with a new one."""
    before, metadata = _restarts(pod), pod["metadata"]

    async def probe() -> bool:
        found = await fleet.clients[cluster].get(PODS, metadata["name"], metadata["namespace"])
        return _restarts(found) > before and shared.is_ready(found)

    await fleet.until(f"{metadata['name']} has another Envoy", probe, seconds=PATIENCE_SECONDS)


def _restarts(pod: Raw) -> int:
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"] if each["name"] == "envoy")


async def by_driver(fleet: Fleet, namespace: str, reason: str) -> None:
    """Wait until the target shares Services with this driver."""

    async def probe() -> bool:
        said = condition(await fleet.source.get(TARGETS, "us", namespace), "ServicesShared")
        return (said.get("status"), said.get("reason")) == ("True", reason)

    await fleet.until(f"Services are shared: {reason}", probe, about=namespace, seconds=PATIENCE_SECONDS)


async def endpoints(fleet: Fleet, cluster: str, namespace: str, name: str) -> list[tuple[str, bool]]:
    """Return whether each is ready, by address, of the local gateways' endpoints for a Service."""
    labels = f"{LABEL_SERVICE_NAME}={name},{LABEL_SLICE_MANAGED_BY}={links.GATEWAY_SLICE_MANAGER}"
    found = await fleet.clients[cluster].list(ENDPOINT_SLICES, namespace, labels=labels)
    every = (each for slice in found for each in slice.get("endpoints") or ())
    return sorted({(each["addresses"][0], bool(each["conditions"]["ready"])) for each in every})


async def led(fleet: Fleet, cluster: str, namespace: str, name: str, gateways: int) -> None:
    """Wait until exactly this many gateway pods of a cluster are ready endpoints of a Service."""

    async def probe() -> bool:
        found = await endpoints(fleet, cluster, namespace, name)
        return len({address for address, ready in found if ready}) == gateways

    what = f"{gateways} gateways of {cluster} lead to {name}"
    await fleet.until(what, probe, about=namespace, seconds=PATIENCE_SECONDS)


async def gateway_pods(fleet: Fleet, cluster: str) -> list[Raw]:
    """Return the gateway pods that are not being deleted, once two are ready."""

    async def probe() -> list[Raw]:
        pods = await fleet.clients[cluster].list(PODS, NAMESPACE, labels=GATEWAY_PODS)
        pods = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
        return pods if len(pods) == 2 and all(map(shared.is_ready, pods)) else []

    return await fleet.until(f"two gateways of {cluster} are ready", probe, seconds=PATIENCE_SECONDS)


def pids(fleet: Fleet, cluster: str, program: str, uid: str = "") -> list[int]:
    """Return the processes of a program in the containers of a node, or of the pod with this UID."""
    found = []
    for pid in cgroups.members(network.namespace_name(fleet.sandbox.plan.identity, cluster)):
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]
            if Path(name).name == program and f"pod{uid}" in Path(f"/proc/{pid}/cgroup").read_text():
                found.append(pid)
    return [pid for pid in sorted(found) if process.is_alive(pid)]


def signal_all(found: list[int], number: int) -> None:
    assert found
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def ask(fleet: Fleet, namespace: str, cluster: str, address: str, who: str = FRONTEND) -> str:
    """Return the answer that a pod receives from HOST:PORT. The pod's shell expands variables in the address."""
    script = f"timeout 10 wget -qO- http://{address}/"
    words = ("-n", namespace, "exec", who, "--", "sh", "-c", script)
    return (await fleet.kubectl(cluster, *words)).strip()


@contextlib.asynccontextmanager
async def asking(fleet: Fleet, namespace: str, service: str, cluster: str = "cd") -> AsyncIterator[Traffic]:
    """Ask a Service from the frontend of a cluster until the end of the block. All answers are then under
    `frontend`."""
    pid, *at = await _frontend_and(fleet, namespace, service, cluster)
    address = ":".join(at)

    async def answered() -> bool:
        # kube-proxy observes endpoints a moment after their creation.
        with contextlib.suppress(SandboxError):
            return bool(await ask(fleet, namespace, cluster, address))
        return False

    await fleet.until(f"{service} answers in {cluster}", answered, about=namespace, seconds=PATIENCE_SECONDS)
    found = Traffic(RATE)
    try:
        await found.begin_in(f"/proc/{pid}/ns/net", FRONTEND)
        found.ask(FRONTEND, [address])
        yield found
        await found.end()
    finally:
        found.kill()


async def in_network_of(pid: int, program: ModuleType, *arguments: str, **more: Any) -> asyncio.subprocess.Process:
    """Start a program in the network of a process."""
    words = ("nsenter", f"--net=/proc/{pid}/ns/net", "--", sys.executable, str(program.__file__))
    return await asyncio.create_subprocess_exec(*words, *arguments, stdout=asyncio.subprocess.PIPE, **more)


@contextlib.asynccontextmanager
async def answering(pid: int, port: int, *name: str, program: ModuleType = datagrammer) -> AsyncIterator[None]:
    """Run a server program at a port of the pod that a process belongs to."""
    server = await in_network_of(pid, program, "serve", str(port), *name, stdin=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        assert await server.stdout.readline() == b"ready\n"
        yield
    finally:
        server.stdin.close()
        await server.wait()


async def ask_by_udp(fleet: Fleet, namespace: str, service: str, count: int, clients: int = 1) -> Raw:
    """Ask a Service by UDP from the frontend of cd. Return the answers by name and the number of lost datagrams."""
    pid, *at = await _frontend_and(fleet, namespace, service)
    words = ("ask", *at, str(count), str(clients))
    output, _ = await (await in_network_of(int(pid), datagrammer, *words)).communicate()
    found: Raw = json.loads(output)
    return found


async def send(fleet: Fleet, namespace: str, service: str, mib: int, back: int) -> Raw:
    """Send this many MiB from the frontend of cd to the last port of a Service, and then receive `back` MiB."""
    pid, *at = await _frontend_and(fleet, namespace, service, port=-1)
    output, _ = await (await in_network_of(int(pid), streamer, "send", *at, str(mib), str(back))).communicate()
    found: Raw = json.loads(output)
    return found


async def _frontend_and(
    fleet: Fleet, namespace: str, service: str, cluster: str = "cd", *, port: int = 0
) -> tuple[str, str, str]:
    """Return a process in the frontend of a cluster, and host and port of a Service in the same cluster.

    :param port: index among the ports of the Service
    """
    own = await fleet.clients[cluster].get(PODS, FRONTEND, namespace)
    there = await fleet.clients[cluster].get(SERVICES, service, namespace)
    # The pod's sandbox container sleeps, too, in the same network.
    pid = pids(fleet, cluster, "sleep", own["metadata"]["uid"])[0]
    return str(pid), there["spec"]["clusterIP"], str(there["spec"]["ports"][port]["port"])


@contextlib.asynccontextmanager
async def keeping(
    fleet: Fleet, namespace: str, service: str, cluster: str = "cd", clients: int = 16
) -> AsyncIterator[Raw]:
    """Ask from the frontend of a cluster over connections kept until the end of the block. Yields a dict that
    then receives the statistics."""
    pid, *at = await _frontend_and(fleet, namespace, service, cluster)
    words = ("ask", *at, str(clients))
    client = await in_network_of(int(pid), keeper, *words, stdin=asyncio.subprocess.PIPE)
    told: Raw = {}
    try:
        assert client.stdout is not None
        assert await client.stdout.readline() == b"ready\n"
        yield told
    finally:
        output, _ = await client.communicate(b"\n")
    told |= json.loads(output)


@contextlib.asynccontextmanager
async def asking_by_udp(fleet: Fleet, namespace: str, service: str) -> AsyncIterator[list[tuple[float, bool]]]:
    """Ask by UDP from one port of cd's frontend until the end of the block. Yields a list that then receives
    the time and success of each question."""
    pid, *at = await _frontend_and(fleet, namespace, service)
    client = await in_network_of(int(pid), datagrammer, "go-on", *at, stdin=asyncio.subprocess.PIPE)
    told = list[tuple[float, bool]]()
    try:
        yield told
    finally:
        output, _ = await client.communicate(b"\n")
    told += json.loads(output)


def answers(asked: Traffic) -> set[str]:
    return asked.answered_by(FRONTEND)


def failures(asked: Traffic) -> list[dict[str, float]]:
    """Return the failed requests with their start, end and client port."""
    found: list[dict[str, float]] = asked.results[FRONTEND]["failures"]
    return found


def failed_since(asked: Traffic, moment: float) -> list[float]:
    """Return the start times of failed requests, in seconds since a `time.time`."""
    return [round(each["began"] - moment, 1) for each in failures(asked)]


def longest(asked: Traffic) -> str:
    """Describe the longest latency."""
    return f"the longest answer took {asked.results[FRONTEND]['longest']:.1f} s"


def went_on(kept: Raw) -> None:
    """Check that only us answered clients with kept connections, and that each ended one lost at most one
    question. Some have ended, and all could be recreated at once."""
    assert set(kept["answers"]) == {"us"}
    assert kept["not connected"] == 0
    assert kept["ended"] > 0
    assert kept["asked"] == sum(kept["answers"].values()) + kept["under way"]
    assert kept["under way"] <= kept["ended"]
