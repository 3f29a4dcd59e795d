"""Open Cluster Management's kinds, served by the shared test cluster for as long as a test wants them."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

from agent.api.crds import placement_crds
from agent.api.kinds import ADDON_PLACEMENT_SCORES as SCORES
from agent.api.kinds import CRDS, MANAGED_CLUSTERS, NAMESPACES, PLACEMENT_DECISIONS, PLACEMENTS, Kind
from agent.api.kinds import MANAGED_CLUSTER_SET_BINDINGS as BINDINGS
from agent.api.kinds import MANAGED_CLUSTER_SETS as SETS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.sandbox.objects import apply
from tests.waiting import gone, until

Raw = dict[str, Any]

KINDS = (SCORES, MANAGED_CLUSTERS, SETS, BINDINGS, PLACEMENTS, PLACEMENT_DECISIONS)


@contextlib.asynccontextmanager
async def placement_kinds(client: Client) -> AsyncIterator[None]:
    """Afterwards they are gone with all that there is of them."""
    names = [crd["metadata"]["name"] for crd in placement_crds()]
    try:
        await asyncio.gather(*(apply(client, CRDS, crd) for crd in placement_crds()))
        for kind in KINDS:
            await until(functools.partial(_served, client, kind))
        yield
    finally:
        for name in names:
            with contextlib.suppress(NotFound):
                await client.delete(CRDS, name)
        for name in names:
            await gone(functools.partial(client.get, CRDS, name))


async def _served(client: Client, kind: Kind) -> bool:
    with contextlib.suppress(NotFound):
        await client.list(kind)
        return True
    return False


async def managed_cluster(client: Client, name: str, **labels: str) -> Raw:
    """A ManagedCluster, and the namespace that belongs to it."""
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    head = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.name}
    return await client.create(
        MANAGED_CLUSTERS,
        {**head, "metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": True}},
    )
