"""Detect delegates of equally named pods that exist at the same time, such as successive pods of a StatefulSet."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator

from agent.api.kinds import PODS
from agent.api.names import ANNOTATION_PARENT_NAME, LABEL_PARENT_UID
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from tests.e2e.fleet import Fleet

_Place = tuple[str, str, str]
"""Cluster, name and UID of a delegate."""


class Overlaps:
    """Watches the delegates of a namespace in all clusters, even while links are cut.

    Watches of two clusters may differ in delay. An overlap therefore counts only if the first cluster's API
    server still has the delegate.
    """

    def __init__(self, fleet: Fleet, namespace: str) -> None:
        self.found: list[str] = []
        self._fleet = fleet
        self._namespace = namespace
        self._living: dict[str, set[_Place]] = {}
        self._suspects: asyncio.Queue[tuple[str, _Place, set[_Place]]] = asyncio.Queue()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._check())
            for cluster, client in self._fleet.clients.items():
                informer = Informer(client, PODS, self._namespace, labels=LABEL_PARENT_UID)
                informer.subscribe(functools.partial(self._changed, cluster))
                group.create_task(informer.run())

    def _changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        parent = obj.annotations[ANNOTATION_PARENT_NAME]
        living, place = self._living.setdefault(parent, set()), (cluster, obj.name, obj.uid)
        if new is None:
            living.discard(place)
        elif place not in living:
            if living:
                self._suspects.put_nowait((parent, place, set(living)))
            living.add(place)

    async def _check(self) -> None:
        while True:
            parent, new, others = await self._suspects.get()
            for other in others:
                if await self._exists(*other):
                    self.found.append(f"{parent}: {new} was made while {other} was there")

    async def _exists(self, cluster: str, name: str, uid: str) -> bool:
        try:
            pod = await self._fleet.clients[cluster].get(PODS, name, self._namespace)
        except NotFound:
            return False
        return bool(pod["metadata"]["uid"] == uid)


@contextlib.asynccontextmanager
async def none_overlap(fleet: Fleet, namespace: str) -> AsyncIterator[Overlaps]:
    """Check at the end that no two delegates with the same pod name ever existed at the same time."""
    overlaps = Overlaps(fleet, namespace)
    watching = asyncio.ensure_future(overlaps.run())
    try:
        yield overlaps
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert overlaps.found == []
