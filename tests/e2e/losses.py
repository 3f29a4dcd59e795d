"""Ways to lose things of a source `cd` and its target `us`, and a pod to see what becomes of it."""

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
    """The source's agent is dead for a while."""
    await fleet.sandbox.kill("cd", "agent")
    try:
        yield
    finally:
        await fleet.sandbox.start("cd", "agent")


@contextlib.asynccontextmanager
async def target_away(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """The link to us is down for a while, and the source knows it."""
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
    """A node of us whose kubelet is the test, for pods with the node selector `e2e/node: manual`."""
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
    """A node whose kubelet is silent for 50 s is not ready."""
    head = {"apiVersion": LEASES.api_version, "kind": LEASES.name}
    while True:
        spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": micro_stamp(SystemClock().now())}
        with contextlib.suppress(KubeError):
            lease = {**head, "metadata": {"name": node, "namespace": NODE_LEASE_NAMESPACE}, "spec": spec}
            await apply(client, LEASES, lease)
        await asyncio.sleep(5)


async def run(fleet: Fleet, namespace: str, **spec: Any) -> tuple[Raw, Raw]:
    """A single pod that runs, as proxy pod and delegate; a fake node is soon done with one that never restarts."""
    await fleet.source.create(PODS, manifests.pod("a", **spec), namespace)
    over = "Succeeded" if spec.get("restartPolicy") == "Never" else "Running"

    async def bound() -> Raw:
        pod = await fleet.source.get(PODS, "a", namespace)
        return pod if pod["status"]["phase"] == over else {}

    proxy = await fleet.until(f"the pod is {over}", bound, about=namespace)
    return proxy, await delegate_of(fleet, namespace)


async def delegate_of(fleet: Fleet, namespace: str) -> Raw:
    """The only delegate of a namespace."""
    ((_, delegate),) = (await fleet.delegates(namespace)).values()
    return delegate


async def lose(fleet: Fleet, delegate: Raw) -> None:
    """Delete a delegate in its target, at once."""
    metadata = delegate["metadata"]
    await fleet.clients["us"].delete(PODS, metadata["name"], metadata["namespace"], grace=0)


async def set_status(fleet: Fleet, delegate: Raw, status: Raw) -> None:
    """Change a delegate's status as its kubelet would."""
    metadata = delegate["metadata"]
    await fleet.clients["us"].patch(
        PODS, metadata["name"], {"status": status}, metadata["namespace"], sub="status", style="strategic"
    )


async def empty(fleet: Fleet, namespace: str) -> None:
    """Wait until neither side has anything left."""
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)
