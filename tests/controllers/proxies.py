"""Proxy pods and the virtual nodes they are bound to, without the webhook and without the virtual node controller."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, NAMESPACES, NODES, PODS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.errors import NotFound
from agent.model.proxypod import proxy_pod
from tests.controllers.target_links import tear_away
from tests.waiting import PATIENCE_SECONDS, until

Raw = dict[str, Any]

PROVIDER = {"key": names.PROVIDER_KEY, "value": names.PROVIDER_VALUE, "effect": "NoSchedule"}


def elected(name: str, namespace: str, **spec: Any) -> Raw:
    """Return a pod as its user submits it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": name},
            "annotations": {names.PREFIX + names.ELECT: ""},
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


async def enable(client: Client, namespace: str, value: str | None = names.ENABLED_VALUE) -> None:
    """Label a namespace as its administrator does, or remove the label (None)."""
    await client.patch(NAMESPACES, namespace, {"metadata": {"labels": {names.LABEL_ENABLED: value}}})


async def create(client: Client, pod: Raw, targets: Sequence[Target]) -> Raw:
    """Create its proxy pod as the webhook would."""
    return await client.create(PODS, proxy_pod(pod, [target.finalizer for target in targets]))


@contextlib.asynccontextmanager
async def connected(
    deps: Deps, client: Client, namespace: str, **connections: Connection | None
) -> AsyncIterator[dict[str, Target]]:
    """Connect Targets in an enabled namespace; yield them by name once ready, with virtual nodes. None: the
    cluster itself."""
    await enable(client, namespace)
    targets = {
        name: await deps.targets.connect((namespace, name), connection, "first")
        for name, connection in connections.items()
    }
    try:
        for target in targets.values():
            await _node(client, target)
        await until(lambda: all(target.ready for target in targets.values()))
        yield targets
    finally:
        await tear_away(client, namespace)
        for target in targets.values():
            with contextlib.suppress(NotFound):
                await client.delete(NODES, target.node_name)


async def pod_where(
    client: Client, namespace: str, name: str, *, seconds: float = PATIENCE_SECONDS, **wanted: Any
) -> Raw:
    """Return the pod, once it has this phase, node (True: any) and other properties."""
    pod: Raw = {}

    async def probe() -> bool:
        nonlocal pod
        pod = await client.get(PODS, name, namespace)
        found = {"phase": pod["status"].get("phase"), "node": pod["spec"].get("nodeName", "")}
        fits = (bool(found[key]) if value is True else found[key] == value for key, value in wanted.items())
        return all(fits)

    try:
        await until(probe, seconds, what=f"pod {name} has {wanted}")
    except AssertionError as error:
        notes = pod.get("metadata", {}).get("annotations")
        children = [each.get("status") for each in await chaperons(client, namespace)]
        raise AssertionError(f"{error}: {notes}, {pod.get('status')}; its namespace's chaperons: {children}") from error
    return pod


async def chaperons(client: Client, namespace: str) -> list[Raw]:
    """Return all chaperons of a namespace."""
    return await client.list(CHAPERONS, namespace)


async def _node(client: Client, target: Target) -> None:
    node = {
        "metadata": {"name": target.node_name, "labels": {names.PROVIDER_KEY: names.PROVIDER_VALUE}},
        "spec": {"taints": [PROVIDER]},
    }
    await client.create(NODES, node)
