"""What Targets and virtual nodes say of themselves in the course of a test, every word of it."""

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
    """The statuses of every condition, one after the other, of the Targets of a namespace and their nodes."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, str], list[str]] = {}

    def of(self, kind: str, name: str, condition: str) -> list[str]:
        """Statuses of a condition of an object, those that follow each other and are the same told once."""
        return self._of.get((kind, name, condition), [])

    def note(self, old: Object | None, new: Object | None) -> None:
        """Take note of a change."""
        if new is None:
            return
        status: dict[str, Any] = msgspec.json.decode(new.raw).get("status") or {}
        for each in status.get("conditions") or ():
            statuses = self._of.setdefault((new.kind.name, new.name, each["type"]), [])
            if statuses[-1:] != [each["status"]]:
                statuses.append(each["status"])


@contextlib.asynccontextmanager
async def told(fleet: Fleet, namespace: str) -> AsyncIterator[Told]:
    """What Targets of a namespace of the source, and its virtual nodes, tell from now on, and told before."""
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
