"""Members: give an accepted cluster a namespace and rights, revoke those of a denied one, clean up a deleted one.

Watches  ManagedClusters and their sets; ClusterRoles and bindings with the label of a cluster; namespaces.
Writes   namespaces, roles and bindings of members; of ManagedClusters finalizers, set label, managed namespaces, and
         conditions HubAcceptedManagedCluster and Deleting. Deletes addons and ManifestWorks of a deleted cluster.
Absent target: a deleted cluster keeps its finalizers until its agent has cleaned up, or an annotation abandons it.
Another controller handles ManagedClusters of Targets. An existing namespace needs a label with the name of the cluster.
"""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from agent.api.conditions import Status, condition_of, set_condition
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    ROLE_BINDINGS,
    Kind,
)
from agent.api.names.hub import (
    ABANDON,
    ACCEPTED,
    DELETING,
    FINALIZER_API_CLEANUP,
    FINALIZER_CLEANUP,
)
from agent.api.names.ocm import DEFAULT_SET, LABEL_CLUSTER_NAME, LABEL_CLUSTER_SET, OURS
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.clusters.managed_cluster import is_for_its_cluster
from agent.hub import cleanup, clusters, rights
from agent.hub.cleanup import Remaining
from agent.hub.clusters import foreign_namespace, only_user
from agent.hub.rights import Place, State, Step
from agent.kube.client import METADATA_LIST
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from agent.kube.store import Object
from agent.ranking.placing.inputs import ManagedCluster
from agent.ranking.placing.read import cluster_set
from agent.runtime.controller import Controller

if TYPE_CHECKING:
    from agent.kube.informer import Informer

Raw = dict[str, Any]

_FINALIZERS = (FINALIZER_CLEANUP, FINALIZER_API_CLEANUP)
_ACCEPTED: tuple[Status, str, str] = ("True", "HubClusterAdminAccepted", "Accepted by hub cluster admin")
_DENIED: tuple[Status, str, str] = ("False", "HubClusterAdminDenied", "Denied by hub cluster admin")
_SOON_SECONDS, _LATER_SECONDS = 1.0, 5.0
"""Seconds between checks for remaining works, which are not watched: in a deletion's first minute, and later."""
_FIRST_SECONDS = 60.0


class RegistrationController(Controller[str]):
    """Controller with names of clusters as keys."""

    name = "hubregistration"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._clusters = deps.placement.watch(MANAGED_CLUSTERS)
        self._informers: dict[Kind, Informer] = {
            kind: deps.local.informer(kind, labels=LABEL_CLUSTER_NAME)
            for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
        }
        self._sets = deps.placement.watch(MANAGED_CLUSTER_SETS)
        self._namespaces = deps.namespaces.informer
        for informer in self._informers.values():
            self.watch(informer, lambda obj: [obj.labels[LABEL_CLUSTER_NAME]])
        self.watch(self._namespaces, self._named)
        self._clusters.subscribe(self.enqueuing(lambda cluster: [cluster.name]), self._enqueue_all)
        self._sets.subscribe(self._set_changed, self._enqueue_all)
        deps.placement.on_turn(self._enqueue_all)

    async def reconcile(self, key: str) -> float | None:
        """Update the rights, conditions and managed namespaces of one cluster."""
        known = self._clusters.store
        if self._deps.placement.mode != "serve" or known is None:
            return None
        obj = known.get(("", key))
        if obj is None or OURS in obj.labels:
            await self._perform(key, "gone", works=False)
            return None
        cluster = obj.decode()
        if obj.deleting:
            return await self._remove(cluster)
        cluster = await self._mark(cluster)
        if (cluster.get("spec") or {}).get("hubAcceptsClient"):
            return await self._admit(cluster)
        if condition_of(cluster, ACCEPTED) is not None or self._existing(key):
            return await self._deny(cluster)
        return None

    async def _mark(self, cluster: Raw) -> Raw:
        """Write finalizers and the default set into a ManagedCluster without them."""
        metadata, accepted = cluster["metadata"], (cluster.get("spec") or {}).get("hubAcceptsClient")
        held = metadata.get("finalizers") or []
        lacking = [each for each in _FINALIZERS[: 2 if accepted else 1] if each not in held]
        change: Raw = {"finalizers": [*held, *lacking]} if lacking else {}
        if not (metadata.get("labels") or {}).get(LABEL_CLUSTER_SET):
            change["labels"] = {LABEL_CLUSTER_SET: DEFAULT_SET}
        return await self._patch(cluster, {"metadata": change}) if change else cluster

    async def _admit(self, cluster: Raw) -> float | None:
        name = cluster["metadata"]["name"]
        try:
            problem = await self._namespace(name)
            if not problem:
                await self._perform(name, "accepted", works=True, only=only_user(cluster))
        except (Forbidden, Invalid, AlreadyExists) as error:
            await self._set_condition(cluster, ACCEPTED, ("False", "Error", str(error)))
            raise
        cluster = await self._set_condition(cluster, ACCEPTED, ("False", "Error", problem) if problem else _ACCEPTED)
        listed = managed_namespaces(cluster, self._sets.store or ())
        if listed != ((cluster.get("status") or {}).get("managedNamespaces") or []):
            await self._patch(cluster, {"status": {"managedNamespaces": listed or None}}, sub="status")
        return None

    async def _deny(self, cluster: Raw) -> float | None:
        """Revoke the rights of a cluster. Those for its works, and the condition, follow once no work remains."""
        name = cluster["metadata"]["name"]
        bound = rights.works_binding(name) in self._existing(name)
        # First, so that it happens also if works cannot be listed.
        await self._perform(name, "denied", works=True, only=only_user(cluster))
        if bound and await self._list(MANIFEST_WORKS, name):
            return _LATER_SECONDS
        await self._perform(name, "denied", works=False, only=only_user(cluster))
        await self._set_condition(cluster, ACCEPTED, _DENIED)
        return None

    async def _remove(self, cluster: Raw) -> float | None:
        metadata, name = cluster["metadata"], cluster["metadata"]["name"]
        held = metadata.get("finalizers") or []
        if not set(_FINALIZERS) & set(held):
            await self._perform(name, "gone", works=False)
            return None
        # First, so that it happens also if works cannot be listed.
        await self._perform(name, "gone", works=True)
        remaining = await self._remaining(name)
        if remaining is not None:
            abandoned = (metadata.get("annotations") or {}).get(ABANDON) == "true"
            await self._clear(remaining, name, abandoned=abandoned)
            await self._set_condition(cluster, DELETING, remaining.condition(abandoned=abandoned))
            age = (self._deps.server_now - parse(metadata["deletionTimestamp"])).total_seconds()
            return _SOON_SECONDS if age < _FIRST_SECONDS else _LATER_SECONDS
        await self._perform(name, "gone", works=False)
        cluster = await self._set_condition(cluster, DELETING, cleanup.DONE)
        if rights.works_binding(name) in self._existing(name):
            return _LATER_SECONDS
        await self._patch(cluster, {"metadata": {"finalizers": [each for each in held if each not in _FINALIZERS]}})
        return None

    async def _remaining(self, name: str) -> Remaining | None:
        """Return the objects to delete first; None if none remain.

        A namespace that is not for the cluster is another's, with its objects, unless the cluster had rights in it.
        """
        namespace = self._namespaces.store.get(("", name))
        is_for_it = namespace is not None and is_for_its_cluster(namespace)
        if not is_for_it and rights.works_binding(name) not in self._existing(name):
            return None
        for kind in cleanup.ORDER:
            if found := await self._list(kind, name):
                return Remaining(kind, found)
        return None

    async def _clear(self, remaining: Remaining, namespace: str, *, abandoned: bool) -> None:
        for each in remaining.next():
            metadata = each["metadata"]
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(remaining.kind, metadata["name"], namespace, uid=metadata["uid"])
        for each in remaining.held() if abandoned else ():
            metadata = each["metadata"]
            body = {"metadata": {"uid": metadata["uid"], "finalizers": None}}
            with contextlib.suppress(NotFound, Conflict):
                await self._client.patch_raw(remaining.kind, metadata["name"], body, namespace)

    async def _list(self, kind: Kind, namespace: str) -> list[Raw]:
        """Return the metadata of all objects of a kind. Nothing else is read: contents of works may be secret."""
        try:
            _, items = await self._client.list_raw(kind, namespace, accept=METADATA_LIST)
        except NotFound:
            return []
        return [msgspec.json.decode(item) for item in items]

    async def _namespace(self, name: str) -> str:
        """Create the namespace of a member. Return why it cannot be used; empty if it can."""
        namespace = self._namespaces.store.get(("", name))
        if namespace is None:
            head = {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.name}
            manifest = {**head, "metadata": {"name": name, "labels": {LABEL_CLUSTER_NAME: name}}}
            self._namespaces.absorb(await self._client.create_raw(NAMESPACES, manifest))
        elif namespace.deleting:
            return f'cluster namespace "{name}" is terminating'
        elif not is_for_its_cluster(namespace):
            return foreign_namespace(name)
        return ""

    def _existing(self, name: str) -> dict[Place, Raw]:
        found = {}
        for kind, namespace, place in rights.places(name):
            obj = self._informers[kind].store.get((namespace, place))
            if obj is not None:
                found[kind, namespace, place] = obj.decode()
        return found

    async def _perform(self, name: str, state: State, *, works: bool, only: str = "") -> None:
        for step in rights.steps(name, rights.wanted(name, state, only), self._existing(name), works=works):
            with contextlib.suppress(NotFound):
                await self._write(step)

    async def _write(self, step: Step) -> None:
        kind, namespace, name = step.place
        informer = self._informers[kind]
        if step.verb == "delete":
            with contextlib.suppress(Conflict):
                await self._client.delete(kind, name, namespace or None, uid=step.uid)
            return
        body = step.body or {}
        if step.verb == "create":
            raw = await self._client.create_raw(kind, body)
        else:
            raw = await self._client.patch_raw(kind, name, body, namespace or None)
        informer.absorb(raw)

    async def _set_condition(self, cluster: Raw, type: str, told: tuple[Status, str, str]) -> Raw:
        """Set a condition of a ManagedCluster; write only changes."""
        old = (cluster.get("status") or {}).get("conditions")
        new = set_condition(old, type, *told, self._deps.clock.now())
        if old == new:
            return cluster
        if type == ACCEPTED:
            self._deps.recorder.event(cluster, "Normal" if told[0] == "True" else "Warning", told[1], told[2])
        return await self._patch(cluster, {"status": {"conditions": new}}, sub="status")

    async def _patch(self, cluster: Raw, body: Raw, sub: str | None = None) -> Raw:
        return await clusters.patch(self._client, self._clusters, cluster, body, sub)

    def _set_changed(self, old: Object | None, new: Object | None) -> None:
        if asks_otherwise(old, new):
            for each in self._clusters.store or ():
                self.queue.add(each.name)

    def _enqueue_all(self) -> None:
        """Re-check all clusters, and the rights of clusters that were deleted meanwhile."""
        for informer in self._informers.values():
            for obj in informer.store:
                self.queue.add(obj.labels[LABEL_CLUSTER_NAME])
        for cluster in self._clusters.store or ():
            self.queue.add(cluster.name)

    def _named(self, namespace: Object) -> Iterable[str]:
        store = self._clusters.store
        return [namespace.name] if store is not None and store.get(("", namespace.name)) is not None else []


def asks_otherwise(old: Object | None, new: Object | None) -> bool:
    """Return whether the spec of a set has changed. Its status changes with each cluster that joins."""
    return old is None or new is None or old.decode().get("spec") != new.decode().get("spec")


def managed_namespaces(cluster: Raw, sets: Iterable[Object]) -> list[Raw]:
    """Return the namespaces that a cluster's sets request from its agent, with the conditions that the agent wrote."""
    metadata = cluster["metadata"]
    member = ManagedCluster(metadata["name"], metadata.get("labels") or {})
    told = (cluster.get("status") or {}).get("managedNamespaces") or []
    known = {(each["clusterSet"], each["name"]): each for each in told}
    asked = {
        (each["metadata"]["name"], namespace["name"])
        for each in (obj.decode() for obj in sets)
        if (each.get("spec") or {}).get("managedNamespaces") and cluster_set(each).has(member)
        for namespace in each["spec"]["managedNamespaces"]
    }
    return [known.get(key) or {"clusterSet": key[0], "name": key[1]} for key in sorted(asked)]
