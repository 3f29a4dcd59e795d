"""A scheduler run by the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agent.api.kinds import NODES, PODS
from agent.kube.client import Client


@contextlib.asynccontextmanager
async def scheduler_by_hand(client: Client, namespace: str, name: str) -> AsyncIterator[None]:
    """Bind all pods with this scheduler name to the first node."""
    (node, *_) = await client.list(NODES)

    async def schedule() -> None:
        while True:
            for pod in await client.list(PODS, namespace, fields=f"spec.schedulerName={name},spec.nodeName="):
                target = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
                metadata = {"name": pod["metadata"]["name"], "namespace": namespace}
                await client.create(PODS, {"metadata": metadata, "target": target}, namespace, sub="binding")
            await asyncio.sleep(0.2)

    task = asyncio.ensure_future(schedule())
    try:
        yield
        assert not task.done(), task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
