"""What a cluster serves, and all that it has of some namespaces."""

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
"""What comes and goes by itself, and what tells of shared Services where that is asked for."""


class Contents:
    """Objects of a cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._kinds: Sequence[Kind] = ()

    async def kinds(self, *, anew: bool = False) -> Sequence[Kind]:
        """All kinds that can be listed, each in the version that the cluster prefers."""
        if anew or not self._kinds:
            found: dict[tuple[str, str], Kind] = {}
            for path in ("/api", "/apis"):
                answer = await self.client.session.request("GET", path, accept=_ACCEPT)
                for kind in _kinds(msgspec.json.decode(answer)):
                    found.setdefault((kind.group, kind.plural), kind)
            self._kinds = [kind for kind in found.values() if kind.plural not in _NOT_LISTED]
        return self._kinds

    async def of(self, namespaces: Iterable[str], kinds: Collection[Kind] = ()) -> list[Raw]:
        """All objects of these namespaces, of every kind or of these."""
        wanted = [kind for kind in kinds or await self.kinds() if kind.namespaced]
        read = [self._list(kind, namespace) for namespace in namespaces for kind in wanted]
        return [obj for objects in await asyncio.gather(*read) for obj in objects]

    async def named(self, objects: Iterable[Raw]) -> list[Raw]:
        """Those of a manifest's objects that are of no namespace and are there."""
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
        """Those of a manifest's objects that are there, of no namespace or not of one of ours: somebody else's."""
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
        """Volumes of claims of these namespaces."""
        volumes = await self.client.list(VOLUMES)
        return [each for each in volumes if (each["spec"].get("claimRef") or {}).get("namespace") in namespaces]

    async def virtual_nodes(self) -> frozenset[str]:
        """Nodes that stand for targets."""
        nodes = await self.client.list(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        return frozenset(each["metadata"]["name"] for each in nodes)

    async def _list(self, kind: Kind, namespace: str) -> list[Raw]:
        try:
            return await self.client.list(kind, namespace)
        except NotFound:
            return []  # Its definition has just gone.


def _kinds(discovery: Raw) -> Iterable[Kind]:
    """Of an answer of aggregated discovery; the first version of a group is the preferred one."""
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
