"""ServiceExports of every cluster, as they were listed last, and exports and imports one by one.

Sources may list exports and not watch them: one list a minute is for all Services of a cluster.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from agent.api import names
from agent.api.kinds import SERVICE_EXPORTS, Kind
from agent.clusters.deps import Deps
from agent.drivers.driver import LOCAL, Place
from agent.kube.client import METADATA_LIST
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from agent.kube.store import Key, Object

if TYPE_CHECKING:
    from agent.clusters.port import Port

Raw = dict[str, Any]

OURS = names.SHORT_PREFIX + "shared-from"
"""Label of our exports: the UID of the cluster whose Service they share."""
AGAIN_SECONDS = 60.0
"""Seconds between two lists of a cluster's exports."""
_REFUSED_SECONDS = 30.0
"""Seconds until the next list if exports are not served or listing them is forbidden. `fresh` may ask more often."""


class Export(NamedTuple):
    """The fields of a ServiceExport that drivers use."""

    uid: str
    ours: bool
    services: frozenset[str]
    """UIDs of the Services that own it."""
    deleting: bool


@dataclass
class _Listed:
    """The exports of one cluster, or why they are not known."""

    kind: Kind
    until: float
    exports: dict[Key, Export] = field(default_factory=dict)
    problem: Forbidden | NotFound | None = None


class Exports:
    """Exports of all clusters, each in the newest served version of the API."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._listed: WeakKeyDictionary[Port, _Listed] = WeakKeyDictionary()
        self._turns: WeakKeyDictionary[Port, asyncio.Lock] = WeakKeyDictionary()
        self._kinds: WeakKeyDictionary[Port, dict[str, Kind]] = WeakKeyDictionary()

    async def fresh(self, place: Place) -> Export | None:
        """Return the export of a Service, at most a minute old.

        Raises NotFound if the kind is not served, KubeError.
        """
        listed = await self._look(place, fresh=True)
        if listed.problem is not None:
            raise listed.problem.with_traceback(None)
        return listed.exports.get(place.service)

    async def known(self, place: Place) -> Export | None:
        """Return the export of a Service from the last list; None without one or without access. Raises KubeError."""
        return (await self._look(place)).exports.get(place.service)

    async def create(self, place: Place, manifest: Raw) -> None:
        """Create an export. If one already exists, drop the cached list, so that the next list finds its owner."""
        listed = await self._look(place)
        try:
            raw = await place.port.create_raw(listed.kind, {**manifest, "apiVersion": listed.kind.api_version})
        except AlreadyExists:
            self._listed.pop(place.port, None)
            return
        self._listed.get(place.port, listed).exports[place.service] = self._export(Object(listed.kind, raw))

    async def delete(self, place: Place, export: Export) -> None:
        """Delete this one; another of that name stays."""
        listed = await self._look(place)
        namespace, name = place.service
        with contextlib.suppress(NotFound, Conflict):
            await place.port.delete(listed.kind, name, namespace, uid=export.uid)
        self._listed.get(place.port, listed).exports.pop(place.service, None)

    async def read(self, place: Place, kind: Kind) -> Raw | None:
        """Return the export or import of a Service. Raises NotFound where the kind is not served, KubeError."""
        kinds = self._kinds.setdefault(place.port, {})
        if kind.name not in kinds:
            kinds[kind.name] = await self._newest(place, kind)
        try:
            return await place.port.get(kinds[kind.name], place.service[1], place.service[0])
        except NotFound as error:
            if error.about:
                return None
            # This version is no longer served.
            kinds.pop(kind.name, None)
            raise

    async def _look(self, place: Place, *, fresh: bool = False) -> _Listed:
        """Return the cached exports of a cluster, or list them; concurrent callers wait for one list."""
        known = self._listed.get(place.port)
        if known is not None:
            lasts = not fresh and known.problem is None
            if lasts or asyncio.get_running_loop().time() < known.until:
                return known
        async with self._turns.setdefault(place.port, asyncio.Lock()):
            found = self._listed.get(place.port)
            if found is None or found is known:
                found = self._listed[place.port] = await self._list(place)
            return found

    async def _list(self, place: Place) -> _Listed:
        now = asyncio.get_running_loop().time()
        target = self._deps.targets.by_node(place.node) if place.node != LOCAL else None
        try:
            kind = await self._newest(place, SERVICE_EXPORTS)
            _, found = await place.port.list_raw(
                kind, (target.namespace if target is not None else "") or None, accept=METADATA_LIST
            )
        except (Forbidden, NotFound) as error:
            again = min(_REFUSED_SECONDS, self._deps.settings.discovery_interval)
            return _Listed(SERVICE_EXPORTS, now + again, problem=error)
        objects = (Object(kind, bytes(each)) for each in found)
        return _Listed(kind, now + AGAIN_SECONDS, {obj.key: self._export(obj) for obj in objects})

    async def _newest(self, place: Place, kind: Kind) -> Kind:
        found = await place.port.newest(kind)
        if found is None:
            raise NotFound(404, "NotFound", unserved(kind, "the target" if place.node != LOCAL else "this cluster"))
        return found

    def _export(self, obj: Object) -> Export:
        owners = frozenset(owner.uid for owner in obj.head.metadata.owner_references or ())
        return Export(obj.uid, obj.labels.get(OURS) == self._deps.cluster_uid, owners, obj.deleting)


def unserved(kind: Kind, where: str) -> str:
    """Return the remedy if a cluster serves no version of a kind."""
    return f"{where} serves no {kind}: install the CRDs of the Multi-Cluster Services API there"
