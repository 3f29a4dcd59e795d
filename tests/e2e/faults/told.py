"""Record all conditions of Targets and virtual nodes during a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from agent.api.kinds import NODES, TARGETS
from agent.api.names import PROVIDER_KEY
from agent.kube.informer import Informer
from agent.kube.store import Object
from tests.e2e.fleet import Fleet


class Told:
    """Successive statuses of each condition, for the Targets of a namespace and virtual nodes."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, str], list[str]] = {}

    def of(self, kind: str, name: str, condition: str) -> list[str]:
        """Return the successive statuses of an object's condition, without repetitions."""
        return self._of.get((kind, name, condition), [])

    def note(self, old: Object | None, new: Object | None) -> None:
        """Record the conditions of a changed object."""
        if new is None:
            return
        status: dict[str, Any] = msgspec.json.decode(new.raw).get("status") or {}
        for each in status.get("conditions") or ():
            statuses = self._of.setdefault((new.kind.name, new.name, each["type"]), [])
            if statuses[-1:] != [each["status"]]:
                statuses.append(each["status"])


@contextlib.asynccontextmanager
async def told(fleet: Fleet, namespace: str) -> AsyncIterator[Told]:
    """Record conditions of the Targets of a namespace in the source, and of virtual nodes, including the
    current ones."""
    found = Told()
    informers = [Informer(fleet.source, TARGETS, namespace), Informer(fleet.source, NODES, labels=PROVIDER_KEY)]
    watching = []
    for informer in informers:
        informer.subscribe(found.note)
        watching.append(asyncio.ensure_future(informer.run()))
    try:
        for informer in informers:
            await informer.synced.wait()
        yield found
    finally:
        for each in watching:
            each.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
