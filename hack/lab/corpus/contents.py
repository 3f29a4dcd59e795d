"""Contents of a cluster: the kinds that it serves, and the objects of some namespaces."""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import NAMESPACES, NODES, SERVICE_LINKS, Kind
from agent.kube.client import Client
from agent.kube.errors import NotFound

Raw = dict[str, Any]

VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NOT_LISTED = frozenset(("events", "componentstatuses", SERVICE_LINKS.plural))
"""Kinds that are not compared: they change continuously, or exist only for shared Services."""


class Contents:
    """Objects of a cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._kinds: Sequence[Kind] = ()

    async def kinds(self, *, anew: bool = False) -> Sequence[Kind]:
        """Return all kinds that can be listed, each in the version that the cluster prefers."""
        if anew or not self._kinds:
            found: dict[tuple[str, str], Kind] = {}
            for path in ("/api", "/apis"):
                answer = await self.client.session.request("GET", path, accept=_ACCEPT)
                for kind in _kinds(msgspec.json.decode(answer)):
                    found.setdefault((kind.group, kind.plural), kind)
            self._kinds = [kind for kind in found.values() if kind.plural not in _NOT_LISTED]
        return self._kinds

    async def of(self, namespaces: Iterable[str], kinds: Collection[Kind] = ()) -> list[Raw]:
        """Return all objects of these namespaces, of every kind or of `kinds`."""
        wanted = [kind for kind in kinds or await self.kinds() if kind.namespaced]
        read = [self._list(kind, namespace) for namespace in namespaces for kind in wanted]
        return [obj for objects in await asyncio.gather(*read) for obj in objects]

    async def named(self, objects: Iterable[Raw]) -> list[Raw]:
        """Return the existing cluster-scoped objects of a manifest."""
        by_name = {(kind.group, kind.name): kind for kind in await self.kinds()}
        found = []
        for obj in objects:
            kind = by_name.get((obj["apiVersion"].rpartition("/")[0], obj["kind"]))
            if kind is None or kind.namespaced or "name" not in obj["metadata"]:
                continue
            try:
                read = await self.client.get(kind, obj["metadata"]["name"])
            except NotFound:
                continue
            found.append({"apiVersion": kind.api_version, "kind": kind.name, **read})
        return found

    async def foreign(self, objects: Iterable[Raw], home: str, ours: Collection[str]) -> list[str]:
        """Return existing objects of a manifest that are cluster-scoped or outside of our own namespaces."""
        by_name = {(kind.group, kind.name): kind for kind in await self.kinds()}
        found = []
        for obj in objects:
            kind = by_name.get((obj["apiVersion"].rpartition("/")[0], obj["kind"]))
            name = obj["metadata"].get("name")
            if kind is None or kind.plural == NAMESPACES.plural or not name:
                continue
            namespace = (obj["metadata"].get("namespace") or home) if kind.namespaced else None
            if namespace in ours:
                continue
            with contextlib.suppress(NotFound):
                await self.client.get(kind, name, namespace)
                found.append(f"{kind.name} {namespace + '/' if namespace else ''}{name}")
        return found

    async def volumes(self, namespaces: Collection[str]) -> list[Raw]:
        """Return the volumes that belong to claims of these namespaces."""
        volumes = await self.client.list(VOLUMES)
        return [each for each in volumes if (each["spec"].get("claimRef") or {}).get("namespace") in namespaces]

    async def virtual_nodes(self) -> frozenset[str]:
        """Return the names of the virtual nodes."""
        nodes = await self.client.list(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        return frozenset(each["metadata"]["name"] for each in nodes)

    async def _list(self, kind: Kind, namespace: str) -> list[Raw]:
        try:
            return await self.client.list(kind, namespace)
        except NotFound:
            return []  # Its definition has just been deleted.


def _kinds(discovery: Raw) -> Iterable[Kind]:
    """Yield the kinds in a response of aggregated discovery; the first version of a group is the preferred one."""
    for group in discovery.get("items") or ():
        for version in group.get("versions") or ():
            for resource in version.get("resources") or ():
                if "list" in (resource.get("verbs") or ()):
                    yield Kind(
                        group["metadata"].get("name") or "",
                        version["version"],
                        resource["resource"],
                        resource["responseKind"]["kind"],
                        namespaced=resource.get("scope") == "Namespaced",
                    )
