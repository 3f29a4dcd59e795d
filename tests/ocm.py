"""Open Cluster Management's kinds on a real API server, and objects as users of a hub write them."""

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.api.conditions import find_condition
from agent.api.crds import placement_crds
from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    EVENTS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Kind,
)
from agent.api.names.ocm import LABEL_CLUSTER_SET, LABEL_PLACEMENT, decision_label
from agent.base.clock import stamp
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, NotFound
from tests.waiting import defined, unserved, until

Raw = dict[str, Any]


KINDS = (
    ADDON_PLACEMENT_SCORES,
    MANAGED_CLUSTERS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTER_SET_BINDINGS,
    PLACEMENTS,
    PLACEMENT_DECISIONS,
)


def object_of(kind: Kind, name: str, namespace: str = "", **fields: Any) -> Raw:
    """Return an object of a kind, to be created."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **fields}


async def install(client: Client) -> None:
    """Install the CRDs."""
    await asyncio.gather(*(defined(client, crd) for crd in placement_crds()))
    for kind in KINDS:
        await until(functools.partial(_served, client, kind))


async def uninstall(client: Client) -> None:
    """Delete the CRDs with all of their objects."""
    await asyncio.gather(*(unserved(client, kind) for kind in KINDS))


async def _served(client: Client, kind: Kind) -> bool:
    await client.list(kind)
    return True


@dataclass
class Hub:
    """One namespace, bound to a cluster set of its own; its clusters' names begin with that of the namespace."""

    client: Client
    namespace: str
    _made: list[tuple[Kind, str]] = field(default_factory=list)

    def name(self, short: str) -> str:
        """Return the full name of a cluster."""
        return f"{self.namespace}-{short}"

    async def make(self, kind: Kind, name: str, namespace: str = "", status: Raw | None = None, **fields: Any) -> Raw:
        """Create an object of any kind with its status; cluster-scoped objects are deleted with the hub."""
        if not namespace:
            self._made.append((kind, name))
        made = await self.client.create(kind, object_of(kind, name, namespace, **fields))
        if status is not None:
            made = await self.client.patch(kind, name, {"status": status}, namespace or None, sub="status")
        return made

    async def cluster(self, short: str, taints: list[Raw] | None = None, **labels: str) -> None:
        """Create a ManagedCluster in the set."""
        labels = {LABEL_CLUSTER_SET: self.namespace, **labels}
        spec = {"hubAcceptsClient": True, "taints": taints or []}
        await self.make(MANAGED_CLUSTERS, self.name(short), metadata={"labels": labels}, spec=spec)

    async def change(self, short: str, body: Raw) -> None:
        """Patch a ManagedCluster."""
        await self.client.patch_raw(MANAGED_CLUSTERS, self.name(short), body)

    async def score(self, short: str, valid: float | None = None, name: str = "usage", **values: int) -> None:
        """Set scores of a cluster, valid for some seconds."""
        cluster = self.name(short)
        with contextlib.suppress(AlreadyExists):
            await self.make(NAMESPACES, cluster)
        with contextlib.suppress(AlreadyExists):
            await self.make(ADDON_PLACEMENT_SCORES, name, cluster)
        moment = stamp(datetime.now(UTC) + timedelta(seconds=valid)) if valid is not None else None
        scores = [{"name": score, "value": value} for score, value in values.items()]
        status = {"scores": scores, "validUntil": moment}
        await self.client.patch_raw(ADDON_PLACEMENT_SCORES, name, {"status": status}, cluster, sub="status")

    async def placement(self, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
        """Create a Placement."""
        return await self.make(PLACEMENTS, name, self.namespace, metadata={"annotations": annotations or {}}, spec=spec)

    async def respec(self, name: str, **spec: Any) -> None:
        """Change the spec of a Placement."""
        await self.client.patch_raw(PLACEMENTS, name, {"spec": spec}, self.namespace)

    async def decisions(self, name: str) -> list[Raw]:
        """Return the PlacementDecisions of a Placement."""
        selector = f"{LABEL_PLACEMENT}={decision_label(name)}"
        return await self.client.list(PLACEMENT_DECISIONS, self.namespace, labels=selector)

    async def decided(self, name: str) -> set[str]:
        """Return the clusters that a Placement has decided, without the namespace in their names."""
        found = [each.get("status", {}).get("decisions") or [] for each in await self.decisions(name)]
        return {each["clusterName"].removeprefix(f"{self.namespace}-") for each in itertools.chain(*found)}

    async def become(self, name: str, *clusters: str) -> None:
        """Wait until a Placement has decided these clusters, and its status reports their number."""

        async def probe() -> bool:
            selected = ((await self.get(name)).get("status") or {}).get("numberOfSelectedClusters")
            return await self.decided(name) == set(clusters) and selected == len(clusters)

        await until(probe, what=f"{name} has decided {', '.join(clusters) or 'nothing'}")

    async def get(self, name: str) -> Raw:
        """Return a Placement."""
        return await self.client.get(PLACEMENTS, name, self.namespace)

    async def condition(self, name: str, type: str, fits: Callable[[Raw], bool] = bool) -> Raw:
        """Return a condition of a Placement, once it matches."""

        async def probe() -> Raw | None:
            found = find_condition(((await self.get(name)).get("status") or {}).get("conditions"), type)
            return dict(found) if found is not None and fits(dict(found)) else None

        return await until(probe, what=f"condition {type} of {name}") or {}

    async def event(self, name: str, reason: str) -> Raw:
        """Return an Event about a Placement, once it exists."""

        async def probe() -> Raw | None:
            events = await self.client.list(EVENTS, self.namespace, fields=f"involvedObject.name={name}")
            return next((each for each in events if each["reason"] == reason), None)

        return await until(probe, what=f"event {reason} of {name}") or {}

    async def close(self) -> None:
        """Delete the cluster-scoped objects; others are deleted with the namespace."""
        for kind, name in reversed(self._made):
            with contextlib.suppress(NotFound):
                await self.client.delete(kind, name)


@contextlib.asynccontextmanager
async def hub_of(client: Client, namespace: str) -> AsyncIterator[Hub]:
    """Return the hub of an existing namespace, with its set bound to it."""
    await install(client)
    hub = Hub(client, namespace)
    try:
        await hub.make(MANAGED_CLUSTER_SETS, namespace, spec={})
        await hub.make(MANAGED_CLUSTER_SET_BINDINGS, namespace, namespace, spec={"clusterSet": namespace})
        yield hub
    finally:
        await hub.close()
