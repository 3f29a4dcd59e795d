"""Namespaces that later tests reuse if they are unchanged: joining targets again takes ten times as long."""

import asyncio
import contextlib
import enum
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent.api import kinds
from agent.api.conditions import is_true
from agent.api.kinds import EVENTS, NAMESPACES, NODES, TARGETS, Kind
from agent.api.names import ANNOTATION_FREE, LABEL_PARENT_CLUSTER_UID, LABEL_PARENT_UID, virtual_node
from agent.kube.client import Client, encode
from agent.kube.errors import KubeError, NotFound
from hack.lab.corpus.contents import Contents
from tests.e2e.manifests import DAEMONSETS

Raw = dict[str, Any]

_WORKLOADS = (
    kinds.DEPLOYMENTS,
    kinds.STATEFUL_SETS,
    DAEMONSETS,
    kinds.JOBS,
    kinds.REPLICA_SETS,
    kinds.PODS,
)
_AT_FIRST = (kinds.SECRETS, kinds.SERVICE_ACCOUNTS, kinds.CONFIGMAPS, kinds.SOURCES, kinds.ROLE_BINDINGS)
"""Kinds whose objects exist in a namespace before its first test."""
_LIMITS = (kinds.RESOURCE_QUOTAS, kinds.NETWORK_POLICIES, Kind("", "v1", "limitranges", "LimitRange"))
"""Limits that have kept pods from a target; agents remember them for a while after their deletion."""
_ANYWHERE = (
    *_WORKLOADS,
    *_AT_FIRST,
    *_LIMITS,
    kinds.CHAPERONS,
    kinds.SERVICES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.INGRESSES,
    kinds.ROLES,
)
_IN_SOURCES = (
    TARGETS,
    kinds.SERVICE_LINKS,
    kinds.CRON_JOBS,
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    kinds.PLACEMENTS,
    kinds.PLACEMENT_DECISIONS,
    kinds.MANAGED_CLUSTER_SET_BINDINGS,
    kinds.SCHEDULING_MANIFESTS,
)
_BY_THEMSELVES = {
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "controllerrevisions.apps",
    "leases.coordination.k8s.io",
    "pods.metrics.k8s.io",
}
"""Kinds whose objects are deleted together with other objects, or expire later."""
_AT_MOST, _PATIENCE_SECONDS = 6, 20.0
_ACCOUNTS = ("managedFields", "resourceVersion", "generation")


class Key(NamedTuple):
    """Setup of a namespace. Tests with equal keys may share one."""

    source: str
    targets: tuple[str, ...]
    enabled: bool


class _Place(NamedTuple):
    cluster: str
    kind: Kind
    name: str


_Found = dict[_Place, Raw]


class _State(enum.Enum):
    AS_BEFORE, ENDING, REJECTED = range(3)


@dataclass
class _Kept:
    """A namespace, its objects in all clusters before its first test, and when the last test returned it."""

    name: str
    key: Key
    before: _Found
    since: float = 0.0


@dataclass
class Reuse:
    """Namespaces of a fleet that are joined to targets and not in use.

    A namespace is reused only if nothing is left in it and its initial objects are unchanged: labels,
    annotations and specification. A test may leave workloads and their dependents.
    """

    clients: Mapping[str, Client]
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """Names and sources of namespaces that cannot be reused and have to be deleted."""
    _used: dict[str, _Kept] = field(default_factory=dict)
    _free: list[_Kept] = field(default_factory=list)

    async def remember(self, name: str, key: Key) -> None:
        """Record the initial objects of a namespace that has just been created."""
        with contextlib.suppress(KubeError):
            self._used[name] = _Kept(name, key, await self._look(name, key, _AT_FIRST, (TARGETS,)))

    async def take(self, key: Key) -> str:
        """Return the name of a free namespace that is as before its first test; empty if there is none."""
        for kept in [each for each in self._free if each.key == key]:
            state = _State.REJECTED
            with contextlib.suppress(KubeError):
                state = await self._state_of(kept)
            if state is _State.ENDING and time.monotonic() - kept.since < _PATIENCE_SECONDS:
                continue
            self._free.remove(kept)
            if state is _State.AS_BEFORE:
                self._used[kept.name] = kept
                return kept.name
            self.rejected.append((kept.name, key.source))
        return ""

    async def give_back(self, name: str) -> bool:
        """Delete a namespace's workloads and mark it as free. Return False if it cannot be reused."""
        kept = self._used.pop(name, None)
        if kept is None:
            return False
        try:
            if "deletionTimestamp" in (await self.clients[kept.key.source].get(NAMESPACES, name))["metadata"]:
                return False
            for kind in _WORKLOADS:
                await self._delete_all(kept.key.source, kind, name)
        except KubeError:
            return False
        kept.since = time.monotonic()
        self._free.append(kept)
        if len(self._free) > _AT_MOST:
            oldest = self._free.pop(0)
            self.rejected.append((oldest.name, oldest.key.source))
        return True

    @property
    def free(self) -> set[str]:
        """Names of the free namespaces."""
        return {each.name for each in self._free}

    def empty(self) -> list[tuple[str, str]]:
        """Forget all free namespaces and return their names and sources."""
        free, self._free = self._free, []
        return [(each.name, each.key.source) for each in free]

    async def overlooked(self) -> list[str]:
        """List objects in free namespaces whose kinds are not checked before reuse."""
        found = []
        known = {*_ANYWHERE, *_IN_SOURCES}
        for cluster, client in self.clients.items():
            for kind in await Contents(client).kinds():
                if kind.namespaced and kind not in known and str(kind) not in _BY_THEMSELVES:
                    with contextlib.suppress(NotFound):  # The CRD may have been deleted meanwhile.
                        places = [each["metadata"]["namespace"] for each in await client.list(kind)]
                        found += [f"{cluster}: {kind} in {each}" for each in places if each in self.free]
        return found

    async def _state_of(self, kept: _Kept) -> _State:
        found = await self._look(kept.name, kept.key, _ANYWHERE, _IN_SOURCES)
        changed = _changed(kept.before, found)
        left = {each: obj for each, obj in found.items() if each not in kept.before}
        # A Target is drained with the rights that its Source grants; deleting both at once would remove these
        # first.
        if any(each.kind != NODES for each in changed) or any(each.kind in (*_LIMITS, TARGETS) for each in left):
            return _State.REJECTED
        if left:
            await self._delete(kept.name, left)
        targets = [found[_Place(kept.key.source, TARGETS, each)] for each in kept.key.targets]
        if left or changed or not all(map(_is_ready, targets)):
            return _State.ENDING
        for cluster in self.clients:
            await self._delete_all(cluster, EVENTS, kept.name)
        return _State.AS_BEFORE

    async def _delete(self, name: str, left: _Found) -> None:
        """Delete leftover objects, but not dependents of other objects, nor objects that agents remove."""
        for place, obj in left.items():
            metadata = obj["metadata"]
            labels = metadata.get("labels", ())
            if "deletionTimestamp" in metadata or "ownerReferences" in metadata:
                continue
            if LABEL_PARENT_UID not in labels and LABEL_PARENT_CLUSTER_UID not in labels:
                with contextlib.suppress(NotFound):
                    await self.clients[place.cluster].delete(place.kind, place.name, name, propagation="Background")

    async def _delete_all(self, cluster: str, kind: Kind, namespace: str) -> None:
        """Delete all objects of a kind, except delegates, which are deleted with their proxy pods."""
        params = {"labelSelector": f"!{LABEL_PARENT_UID}"}
        body = encode({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
        session = self.clients[cluster].session
        await session.request("DELETE", kind.path(namespace), params=params, body=body, resource=kind.plural)

    async def _look(self, name: str, key: Key, anywhere: Iterable[Kind], in_source: Iterable[Kind]) -> _Found:
        """Return a namespace's objects in all clusters, the Namespace objects, and the virtual nodes of its
        Targets."""
        looks = [
            self._look_at(cluster, name, (*anywhere, *(in_source if cluster == key.source else ())))
            for cluster in self.clients
        ]
        found = {place: obj for each in await asyncio.gather(*looks) for place, obj in each.items()}
        for target in key.targets:
            node = virtual_node(name, target)
            found[_Place(key.source, NODES, node)] = await self.clients[key.source].get(NODES, node)
        return found

    async def _look_at(self, cluster: str, name: str, wanted: Iterable[Kind]) -> _Found:
        client = self.clients[cluster]
        found: _Found = {_Place(cluster, NAMESPACES, name): await client.get(NAMESPACES, name)}
        for kind in wanted:
            with contextlib.suppress(NotFound):
                listed = await client.list(kind, name)
                found |= {_Place(cluster, kind, each["metadata"]["name"]): each for each in listed}
        return found


def _is_ready(target: Raw) -> bool:
    return is_true((target.get("status") or {}).get("conditions"), "Ready")


def _changed(before: _Found, found: _Found) -> list[_Place]:
    """Return the objects that were changed (status excepted) or deleted."""
    return [each for each, obj in before.items() if each not in found or _wanted(found[each]) != _wanted(obj)]


def _wanted(obj: Raw) -> Raw:
    """Strip the status, the API server's bookkeeping, and the annotation for a target's free capacity."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _ACCOUNTS}
    if ANNOTATION_FREE in metadata.get("annotations", ()):
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if key != ANNOTATION_FREE
        }
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}
