"""Heartbeats of members: set conditions and taints of ManagedClusters according to the members' leases.

Watches  the leases of members, ManagedClusters.
Writes   a member's first Lease; conditions about availability and clock, and taints, of ManagedClusters; the condition
         Available of a silent member's addons; Events in the namespace of the member.
Absent target: a member that has missed five renewals becomes Unknown and gets the unreachable taint, until its agent
renews again. The time of receipt of a renewal counts, so that a wrong clock of a member does no harm.
"""

import time
from typing import Any

from agent.api.conditions import condition_of, find_condition, is_true, set_condition
from agent.api.kinds import LEASES, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from agent.api.names.hub import ACCEPTED, CLOCK_SYNCED, LEASE
from agent.api.names.ocm import CONDITION_AVAILABLE, LABEL_CLUSTER_NAME, OURS
from agent.base.clock import micro_stamp
from agent.clusters.deps import Deps
from agent.hub import clusters, health
from agent.kube.errors import NotFound
from agent.kube.store import Object
from agent.runtime.controller import Controller

Raw = dict[str, Any]

_OF_ADDONS = "Available"
"""Condition of a ManagedClusterAddOn."""


class HeartbeatController(Controller[str]):
    """Controller with names of clusters as keys."""

    name = "hubheartbeats"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._clusters = deps.placement.watch(MANAGED_CLUSTERS)
        self._leases = deps.local.informer(LEASES, fields=f"metadata.name={LEASE}")
        self._received: dict[str, float] = {}
        """Time when the last renewal of each member was received, by the monotonic clock."""
        self._ages: dict[str, float] = {}
        """Age in seconds that a renewal had at the first sight of its lease, if the member's clock is right."""
        self._news: set[str] = set()
        """Members with a renewal that `reconcile` has not processed yet."""
        self._leases.subscribe(self._renewed)
        self.watch(self._leases, lambda lease: [lease.namespace])
        self._clusters.subscribe(self.enqueuing(lambda cluster: [cluster.name]), self._enqueue_all)
        deps.placement.on_turn(self._enqueue_all)

    async def reconcile(self, key: str) -> float | None:
        """Update conditions and taints of one member. Return the seconds until it is lost."""
        known = self._clusters.store
        if self._deps.placement.mode != "serve" or known is None:
            return None
        obj = known.get(("", key))
        if obj is None or OURS in obj.labels:
            return None
        cluster = obj.decode()
        lease = self._lease(cluster)
        if health.is_known(cluster):
            if lease is None and not obj.deleting and is_true(cluster["status"]["conditions"], ACCEPTED):
                await self._create(key)
            cluster = await self._set_conditions(cluster, lease)
        await self._taint(cluster)
        if lease is not None and lease.is_new:
            self._news.discard(key)
        wait = health.left(cluster, lease) if lease is not None else 0.0
        return wait if wait > 0 else None

    async def _create(self, name: str) -> None:
        metadata = {"name": LEASE, "namespace": name, "labels": {LABEL_CLUSTER_NAME: name}}
        spec = {"holderIdentity": LEASE, "renewTime": micro_stamp(self._deps.server_now)}
        head = {"apiVersion": LEASES.api_version, "kind": LEASES.name}
        self._leases.absorb(await self._client.create_raw(LEASES, {**head, "metadata": metadata, "spec": spec}))

    async def _set_conditions(self, cluster: Raw, lease: health.Lease | None) -> Raw:
        old = cluster["status"]["conditions"]
        new = health.conditions(cluster, lease, self._deps.server_now)
        if old == new:
            return cluster
        lost = (
            find_condition(new, CONDITION_AVAILABLE) != find_condition(old, CONDITION_AVAILABLE)
            and (find_condition(new, CONDITION_AVAILABLE) or {}).get("status") == "Unknown"
        )
        if lost:
            # Before the cluster's condition: if the agent stops in between, the next leader repeats both.
            await self._mark_addons(cluster["metadata"]["name"])
        patched = await self._patch(cluster, {"status": {"conditions": new}}, sub="status")
        if lost:
            metadata = {**cluster["metadata"], "namespace": cluster["metadata"]["name"]}
            self._deps.recorder.event({**cluster, "metadata": metadata}, "Warning", "AvailableUnknown", health.LOST[2])
        return patched

    async def _mark_addons(self, namespace: str) -> None:
        """Set the condition Available of all addons of a silent member to Unknown."""
        try:
            addons = await self._client.list(MANAGED_CLUSTER_ADDONS, namespace)
        except NotFound:
            return
        for each in addons:
            old = (each.get("status") or {}).get("conditions")
            new = set_condition(old, _OF_ADDONS, *health.LOST, self._deps.server_now)
            guard = {"resourceVersion": each["metadata"]["resourceVersion"]}
            body = {"metadata": guard, "status": {"conditions": new}}
            await self._client.patch_raw(
                MANAGED_CLUSTER_ADDONS, each["metadata"]["name"], body, namespace, sub="status"
            )

    async def _taint(self, cluster: Raw) -> None:
        wanted = health.taints(cluster, self._deps.server_now)
        if wanted != ((cluster.get("spec") or {}).get("taints") or []):
            await self._patch(cluster, {"spec": {"taints": wanted or None}})

    async def _patch(self, cluster: Raw, body: Raw, sub: str | None = None) -> Raw:
        return await clusters.patch(self._client, self._clusters, cluster, body, sub)

    def _lease(self, cluster: Raw) -> health.Lease | None:
        name = cluster["metadata"]["name"]
        obj = self._leases.store.get((name, LEASE))
        if obj is None or name not in self._received:
            return None
        silent = time.monotonic() - self._received[name]
        if (condition_of(cluster, CLOCK_SYNCED) or {}).get("status") != "False":
            silent += self._ages.get(name, 0.0)
        return health.read(obj.decode(), silent, is_new=name in self._news)

    def _enqueue_all(self) -> None:
        for cluster in self._clusters.store or ():
            self.queue.add(cluster.name)

    def _renewed(self, old: Object | None, new: Object | None) -> None:
        """Record when a renewal was received. The first version of a lease does not prove that its agent runs."""
        for obj in (old, new):
            if obj is not None and new is None:
                self._received.pop(obj.namespace, None)
                self._ages.pop(obj.namespace, None)
                self._news.discard(obj.namespace)
        if new is None or (old is not None and old.raw == new.raw):
            return
        name = new.namespace
        self._received[name] = time.monotonic()
        if old is None:
            renewed = health.read(new.decode(), 0.0, is_new=False).renewed
            age = (self._deps.server_now - renewed).total_seconds() if renewed is not None else 0.0
            # A time in the future comes from a clock that is ahead.
            self._ages[name] = max(0.0, age)
        else:
            self._ages.pop(name, None)
            self._news.add(name)
