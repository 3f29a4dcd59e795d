"""Helpers for tests of mode `reserve`: candidates in targets, and checks that none is left over."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator

from agent.api import names
from agent.api.kinds import CHAPERONS, NODES, PODS, TARGETS
from hack.lab.sandbox import faults
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition
from tests.waiting import until

CLUSTERS = ("us", "eu")


async def chaperons(fleet: Fleet, namespace: str, *targets: str) -> list[tuple[str, Raw]]:
    """Return the chaperons of a namespace with their clusters."""
    return [
        (target, found)
        for target in targets or CLUSTERS
        for found in await fleet.clients[target].list(CHAPERONS, namespace)
    ]


def notes(obj: Raw) -> dict[str, str]:
    """Return the annotations of an object."""
    return obj["metadata"].get("annotations") or {}


async def candidates(fleet: Fleet, namespace: str, count: int, *targets: str, state: str = "") -> list[tuple[str, Raw]]:
    """Wait for `count` candidates that are not allowed to bind yet; return them with their clusters.

    `state`: `reserved` or `unschedulable`, or empty for both.
    """

    def fits(chaperon: Raw) -> bool:
        if state == "reserved":
            return names.ANNOTATION_IS_RESERVED in notes(chaperon)
        return not state or condition(chaperon, "PodScheduled").get("reason") == "Unschedulable"

    async def probe() -> bool:
        found[:] = [
            each
            for each in await chaperons(fleet, namespace, *targets)
            if names.ANNOTATION_IS_ALLOWED not in notes(each[1])
        ]
        return len(found) == count and all(fits(each) for _, each in found)

    found: list[tuple[str, Raw]] = []
    await fleet.until(f"{count} candidates {state}", probe, about=namespace)
    return found


async def settled(fleet: Fleet, namespace: str, count: int, *, seconds: float = 60.0) -> dict[str, str]:
    """Wait until `count` proxy pods run, each with one chaperon and one delegate, and no other candidate is
    left.

    Returns each delegate's cluster by the UID of its proxy pod.
    """

    async def probe() -> dict[str, str]:
        proxies = {pod["metadata"]["uid"]: pod for pod in await fleet.proxies(namespace)}
        running = all(pod["status"]["phase"] == "Running" for pod in proxies.values())
        found = await chaperons(fleet, namespace)
        pods = [
            pod
            for target in CLUSTERS
            for pod in await fleet.clients[target].list(PODS, namespace, labels=names.LABEL_PARENT_UID)
        ]
        there = {chaperon["metadata"]["labels"][names.LABEL_PARENT_UID]: cluster for cluster, chaperon in found}
        allowed = all(
            names.ANNOTATION_IS_ALLOWED in notes(chaperon)
            or chaperon["spec"]["schedulerName"] != names.SCHEDULER_CANDIDATE
            for _, chaperon in found
        )
        right = len(proxies) == len(found) == len(pods) == count and running and allowed
        return there if right and there.keys() == proxies.keys() else {}

    there = await fleet.until(
        f"{count} pods run once each, and nothing is left", probe, about=namespace, seconds=seconds
    )
    await fleet.agree(namespace)
    return there


async def empty(fleet: Fleet, namespace: str) -> None:
    """Wait until no cluster has pods or chaperons of a namespace."""
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


async def waits(fleet: Fleet, namespace: str, name: str, *words: str) -> str:
    """Wait until the PodScheduled condition of a pending proxy pod contains all `words`; return its message."""

    async def probe() -> str:
        pod = await fleet.source.get(PODS, name, namespace)
        told = condition(pod, "PodScheduled")
        message = str(told.get("message", "")) if told.get("status") == "False" else ""
        return message if all(word in message for word in words) else ""

    return await fleet.until(f"pod {name} says {words}", probe, about=namespace)


@contextlib.asynccontextmanager
async def without(fleet: Fleet, cluster: str, process: str) -> AsyncIterator[None]:
    """Kill a process for the duration of the block, then start it again."""
    await fleet.sandbox.kill(cluster, process)
    try:
        yield
    finally:
        await fleet.sandbox.start(cluster, process)


async def ballast(fleet: Fleet, target: str, namespace: str, cpu: str, *, each: int = 1) -> None:
    """Request `cpu` on every fake node of a target with local pods, `each` per node. Undo with `relief`."""
    client = fleet.clients[target]
    for node in await client.list(NODES, labels="type=kwok"):
        name = node["metadata"]["name"]
        for number in range(each):
            pod = manifests.pod(f"ballast-{number}-{name}", elect=None, nodeName=name)
            pod["metadata"]["labels"] = {"app": "ballast"}
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
            await client.create(PODS, pod, namespace)


async def relief(fleet: Fleet, target: str, namespace: str) -> None:
    """Delete the pods of `ballast`."""
    client = fleet.clients[target]
    for pod in await client.list(PODS, namespace, labels="app=ballast"):
        await client.delete(PODS, pod["metadata"]["name"], namespace, grace=0)


async def strike(fleet: Fleet, struck: asyncio.Event, namespace: str, replicas: int) -> int:
    """Wait for the request that sets `struck`; return the replicas of the Deployment `web` at that time.

    On a busy machine all pods may be bound to the target without the proxy. In that case add as many replicas
    again.
    """
    for count in range(replicas, 4 * replicas + 1, replicas):
        if count > replicas:
            await fleet.source.patch(manifests.DEPLOYMENTS, "web", {"spec": {"replicas": count}}, namespace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                await struck.wait()
            return count
    raise AssertionError(f"none of {count} pods has needed such a request")


class Killer:
    """Kills the source's agent at the moment it sends a matching request to a target.

    With `lost`, the request is dropped, and further matching ones while `armed`.
    """

    def __init__(self, fleet: Fleet, chosen: faults.Drop, *, lost: bool, kill: bool = True) -> None:
        self.armed = True
        self.struck = asyncio.Event()
        self._fleet = fleet
        self._chosen = chosen
        self._lost = lost
        self._kill = kill
        self._pid: int | None = None

    def __call__(self, method: str, path: str, body: bytes) -> bool:
        """Decide about a request, as the `drop` function of a `LossyProxy`."""
        if not self.armed or not self._chosen(method, path, body):
            return False
        self.struck.set()
        if self._kill:
            self.armed = False
            self._pid = self._fleet.sandbox["cd"].pid("agent")
            assert self._pid is not None
            os.kill(self._pid, signal.SIGKILL)
        if self._lost:
            raise ConnectionResetError("this request is to get lost")
        return True

    async def revive(self) -> None:
        """Wait for the kill, then start the agent again."""
        async with asyncio.timeout(60):
            await self.struck.wait()
        # If agents run in pods, the kubelet restarts the container.
        await until(lambda: self._fleet.sandbox["cd"].pid("agent") != self._pid)
        await self._fleet.sandbox.start("cd", "agent")


@contextlib.asynccontextmanager
async def between(fleet: Fleet, drop: faults.Drop, *, weight: int = 0) -> AsyncIterator[str]:
    """Provide a namespace with two targets: us behind a lossy proxy, eu directly. `weight` is that of us."""
    us = fleet.sandbox["us"]
    authority = (us.directory / "pki" / "ca.crt").read_bytes()
    gateway = fleet.sandbox.plan.host_address
    async with (
        faults.LossyProxy(us.server, authority, gateway, drop) as proxy,
        fleet.namespace(targets=()) as namespace,
    ):
        await fleet.join(namespace, "eu")
        await fleet.join(namespace, "us", server=proxy.url, authority=proxy.authority, weight=weight)
        try:
            yield namespace
        finally:
            for workload in await fleet.source.list(manifests.DEPLOYMENTS, namespace):
                name = workload["metadata"]["name"]
                await fleet.source.delete(manifests.DEPLOYMENTS, name, namespace, propagation="Foreground")
            await empty(fleet, namespace)
            # Deleting a Target needs access to the target, and the agent reaches this one only through the proxy.
            await fleet.source.delete(TARGETS, "us", namespace)
            await fleet.gone(TARGETS, "us", namespace)


def is_candidate_post(method: str, path: str, body: bytes) -> bool:
    """Check that a request creates a chaperon."""
    return method == "POST" and path.endswith(f"/{CHAPERONS.plural}")


def is_allow(method: str, path: str, body: bytes) -> bool:
    """Check that a request allows a candidate to bind."""
    return method == "PATCH" and f"/{CHAPERONS.plural}/" in path and names.ANNOTATION_IS_ALLOWED.encode() in body


def is_delete(method: str, path: str, body: bytes) -> bool:
    """Check that a request deletes a chaperon."""
    return method == "DELETE" and f"/{CHAPERONS.plural}/" in path
