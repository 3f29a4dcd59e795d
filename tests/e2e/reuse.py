"""Namespaces that one test leaves to the next one, as they were: to join a target again costs ten times as much."""

import asyncio
import contextlib
import enum
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from agent.api.kinds import (
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    TARGETS,
    Kind,
)
from agent.api.names import ANNOTATION_FREE, LABEL_PARENT_CLUSTER_UID, LABEL_PARENT_UID, virtual_node
from agent.kube.client import Client, encode
from agent.kube.errors import KubeError, NotFound
from tests.e2e.manifests import DAEMONSETS, DEPLOYMENTS, JOBS, REPLICASETS, STATEFULSETS

Raw = dict[str, Any]

_WORKLOADS = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, JOBS, REPLICASETS, PODS)
_SELDOM = {RESOURCE_QUOTAS, NETWORK_POLICIES, Kind("", "v1", "limitranges", "LimitRange")}
"""What agents remember for a while after it is gone, since it has kept pods from a target."""
_GOES_BY_ITSELF = {EVENTS, ENDPOINT_SLICES, Kind("", "v1", "endpoints", "Endpoints")}
_AT_MOST, _PATIENCE_SECONDS = 4, 20.0
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCOUNTS = ("managedFields", "resourceVersion", "generation")


class Key(NamedTuple):
    """Tests that ask for the same may have the same namespace."""

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
    """A namespace, what was in it before its first test, in all clusters, and when its last one gave it back."""

    name: str
    key: Key
    before: _Found
    since: float = 0.0


@dataclass
class Reuse:
    """Namespaces of a fleet that are up, joined, and not in use.

    One is given to another test only if nothing is left in it, and if what was there at first, with its labels,
    annotations and specification, has not been changed. A test may leave workloads, and what goes with them.
    """

    clients: Mapping[str, Client]
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """Names and sources of those that turned out not to be fit for another test, to be deleted."""
    _used: dict[str, _Kept] = field(default_factory=dict)
    _free: list[_Kept] = field(default_factory=list)

    async def remember(self, name: str, key: Key) -> None:
        """A namespace has just been made."""
        with contextlib.suppress(KubeError):
            found = await self._look(name, key)
            self._used[name] = _Kept(name, key, {each: obj for each, obj in found.items() if each.kind != EVENTS})

    async def take(self, key: Key) -> str:
        """One that is as at first, if there is any, else empty."""
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
        """Empty one of its workloads; False if it is not fit for another test."""
        kept = self._used.pop(name, None)
        if kept is None or len(self._free) >= _AT_MOST:
            return False
        try:
            found = await self._look(name, kept.key)
            left = {each: obj for each, obj in found.items() if each not in kept.before and not _is_carried(obj)}
            if any(each.kind in _SELDOM for each in left) or _changed(kept.before, found, but=NODES):
                return False
            await self._delete(name, left)
        except KubeError:
            return False
        kept.since = time.monotonic()
        self._free.append(kept)
        return True

    @property
    def free(self) -> set[str]:
        """The names of those that are free."""
        return {each.name for each in self._free}

    def empty(self) -> list[tuple[str, str]]:
        """Forget all that are free; returns their names and sources."""
        free, self._free = self._free, []
        return [(each.name, each.key.source) for each in free]

    async def _state_of(self, kept: _Kept) -> _State:
        found = await self._look(kept.name, kept.key)
        if _changed(kept.before, found, but=NODES):
            return _State.REJECTED
        left = {each for each in found if each not in kept.before}
        is_empty = all(each.kind == EVENTS for each in left)
        if not is_empty or _changed(kept.before, found) or not all(_is_ready(found[each]) for each in _targets(kept)):
            return _State.ENDING
        for cluster in {each.cluster for each in left}:
            await self._delete_all(cluster, EVENTS, kept.name)
        return _State.AS_BEFORE

    async def _delete(self, name: str, left: _Found) -> None:
        for kind in _WORKLOADS:
            for cluster in sorted({each.cluster for each in left if each.kind == kind}):
                await self._delete_all(cluster, kind, name)
        for place, obj in left.items():
            if place.kind not in (*_WORKLOADS, *_GOES_BY_ITSELF) and "ownerReferences" not in obj["metadata"]:
                with contextlib.suppress(NotFound):
                    await self.clients[place.cluster].delete(place.kind, place.name, name)

    async def _delete_all(self, cluster: str, kind: Kind, namespace: str) -> None:
        """But for delegates, which go with their proxy pods."""
        params = {"labelSelector": f"!{LABEL_PARENT_UID}"}
        body = encode({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
        session = self.clients[cluster].session
        await session.request("DELETE", kind.path(namespace), params=params, body=body, resource=kind.plural)

    async def _look(self, name: str, key: Key) -> _Found:
        """All objects of a namespace in all clusters, the namespaces, and the virtual nodes of its Targets."""
        looks = await asyncio.gather(*(self._look_at(cluster, name) for cluster in self.clients))
        found = {place: obj for each in looks for place, obj in each.items()}
        for target in key.targets:
            node = virtual_node(name, target)
            found[_Place(key.source, NODES, node)] = await self.clients[key.source].get(NODES, node)
        return found

    async def _look_at(self, cluster: str, name: str) -> _Found:
        client = self.clients[cluster]
        found: _Found = {_Place(cluster, NAMESPACES, name): await client.get(NAMESPACES, name)}
        kinds = await _kinds(client)
        listed = await asyncio.gather(*(client.list(each, name) for each in kinds))
        for kind, objects in zip(kinds, listed, strict=True):
            found |= {_Place(cluster, kind, each["metadata"]["name"]): each for each in objects}
        return found


async def _kinds(client: Client) -> list[Kind]:
    """What namespaces of a cluster may have in them, but for what nobody can delete, and Events by their other name."""
    found = []
    for root in ("/api", "/apis"):
        answer = msgspec.json.decode(await client.session.request("GET", root, resource="apis", accept=_DISCOVERY))
        for group in answer["items"]:
            name = group["metadata"].get("name", "")
            version = group["versions"][0]
            found += [
                Kind(name, version["version"], each["resource"], each["responseKind"]["kind"])
                for each in version["resources"]
                if each["scope"] == "Namespaced" and "deletecollection" in each["verbs"] and "list" in each["verbs"]
                if name != "events.k8s.io"
            ]
    return found


def _targets(kept: _Kept) -> list[_Place]:
    return [_Place(kept.key.source, TARGETS, each) for each in kept.key.targets]


def _is_ready(target: Raw) -> bool:
    conditions = target.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _is_carried(obj: Raw) -> bool:
    """Whether an agent has made it for what is in another cluster, and takes it away again."""
    return any(each in obj["metadata"].get("labels", ()) for each in (LABEL_PARENT_UID, LABEL_PARENT_CLUSTER_UID))


def _changed(before: _Found, found: _Found, *, but: Kind | None = None) -> list[_Place]:
    """What is not as it was, apart from its status; without those of one kind."""
    places = [each for each in before if each.kind != but]
    return [each for each in places if each not in found or _wanted(found[each]) != _wanted(before[each])]


def _wanted(obj: Raw) -> Raw:
    """An object without what its status, the API server's accounts and a target's load add to it."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _ACCOUNTS}
    if ANNOTATION_FREE in metadata.get("annotations", ()):
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if key != ANNOTATION_FREE
        }
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}
