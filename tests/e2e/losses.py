"""Failures of a source `cd` and its target `us`, and a pod to observe during them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from agent.api.kinds import LEASES, NODES, PODS, TARGETS
from agent.api.names import NODE_LEASE_NAMESPACE
from agent.base.clock import SystemClock, micro_stamp
from agent.kube.client import Client
from agent.kube.errors import KubeError, NotFound
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition

Raw = dict[str, Any]


@contextlib.asynccontextmanager
async def source_away(fleet: Fleet) -> AsyncIterator[None]:
    """Stop the source's agent during the block."""
    await fleet.sandbox.kill("cd", "agent")
    try:
        yield
    finally:
        await fleet.sandbox.start("cd", "agent")


@contextlib.asynccontextmanager
async def target_away(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """Cut the link to us during the block, which begins once the source has noticed."""
    await fleet.sandbox.set_link("us", up=False)
    try:

        async def noticed() -> bool:
            target = await fleet.source.get(TARGETS, "us", namespace)
            return condition(target, "Reachable").get("status") == "False"

        await fleet.until("the Target is unreachable", noticed, about=namespace)
        yield
    finally:
        await fleet.sandbox.set_link("us", up=True)


@contextlib.asynccontextmanager
async def node_by_hand(fleet: Fleet) -> AsyncIterator[str]:
    """Create a node in us without a kubelet, for pods with the node selector `e2e/node: manual`; the test sets
    pod status."""
    us, name = fleet.clients["us"], "us-manual"
    manifest = manifests.manual_node(name, "us")
    await us.create(NODES, manifest)
    beating = asyncio.create_task(_heartbeats(us, name))
    try:
        await us.patch(NODES, name, {"status": manifest["status"]}, sub="status")
        yield name
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        for pod in await us.list(PODS, fields=f"spec.nodeName={name}"):
            with contextlib.suppress(NotFound):
                await us.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace=0)
        await us.delete(NODES, name)


async def _heartbeats(client: Client, node: str) -> None:
    """Renew the node's Lease: the node lifecycle controller marks a node without heartbeats for 50 s as not
    ready."""
    head = {"apiVersion": LEASES.api_version, "kind": LEASES.name}
    while True:
        spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": micro_stamp(SystemClock().now())}
        with contextlib.suppress(KubeError):
            lease = {**head, "metadata": {"name": node, "namespace": NODE_LEASE_NAMESPACE}, "spec": spec}
            await apply(client, LEASES, lease)
        await asyncio.sleep(5)


async def run(fleet: Fleet, namespace: str, **spec: Any) -> tuple[Raw, Raw]:
    """Create a pod, wait until it runs, and return proxy pod and delegate. With restartPolicy Never, a fake
    node completes it."""
    await fleet.source.create(PODS, manifests.pod("a", **spec), namespace)
    over = "Succeeded" if spec.get("restartPolicy") == "Never" else "Running"

    async def bound() -> Raw:
        pod = await fleet.source.get(PODS, "a", namespace)
        return pod if pod["status"]["phase"] == over else {}

    proxy = await fleet.until(f"the pod is {over}", bound, about=namespace)
    return proxy, await delegate_of(fleet, namespace)


async def delegate_of(fleet: Fleet, namespace: str) -> Raw:
    """Return the only delegate of a namespace."""
    ((_, delegate),) = (await fleet.delegates(namespace)).values()
    return delegate


async def lose(fleet: Fleet, delegate: Raw) -> None:
    """Delete a delegate in its target without grace period."""
    metadata = delegate["metadata"]
    await fleet.clients["us"].delete(PODS, metadata["name"], metadata["namespace"], grace=0)


async def set_status(fleet: Fleet, delegate: Raw, status: Raw) -> None:
    """Patch a delegate's status, like its kubelet."""
    metadata = delegate["metadata"]
    await fleet.clients["us"].patch(
        PODS, metadata["name"], {"status": status}, metadata["namespace"], sub="status", style="strategic"
    )


async def empty(fleet: Fleet, namespace: str) -> None:
    """Wait until no cluster has pods or chaperons of the namespace."""
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)
