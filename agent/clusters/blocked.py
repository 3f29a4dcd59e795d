"""What keeps copies from where they should be: remembered, looked at again, and told once to each object concerned."""

import logging
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from agent.base.backoff import Backoff
from agent.kube.events import Recorder
from agent.kube.store import Object

log = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Hashable)

UNTOLD = ""
"""Message of what is looked at again like anything else that is in the way, and told to nobody."""
LOOK_SECONDS = (2.0, 60.0)
"""First and longest pause between looks whether what is in the way has gone: nothing tells us of others' objects."""
_SOON_SECONDS = 1.0
"""However often it is asked for: at most one look in this time."""


@dataclass
class _Known:
    message: str = ""
    until: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(*LOOK_SECONDS))
    told: set[tuple[str, str]] = field(default_factory=set)


class BlockedCopies(Generic[Item]):
    """Copies that cannot be made or changed now, by item. Moments are seconds of the event loop's clock."""

    def __init__(self, recorder: Recorder, reason: str) -> None:
        """:param reason: of the Warning events"""
        self._recorder = recorder
        self._reason = reason
        self._known: dict[Item, _Known] = {}

    def __contains__(self, item: Item) -> bool:
        return item in self._known

    def items(self) -> list[Item]:
        """All that are blocked."""
        return list(self._known)

    def message(self, item: Item) -> str:
        """What is in the way; empty if nothing is."""
        known = self._known.get(item)
        return known.message if known is not None else ""

    def again(self, item: Item, now: float) -> float:
        """In how many seconds it is worth a look, 0 for now."""
        known = self._known.get(item)
        return max(0.0, known.until - now) if known is not None else 0.0

    def found(self, item: Item, message: str, now: float) -> float:
        """Something is in the way; returns after how many seconds to look again."""
        known = self._known.setdefault(item, _Known())
        if message not in (UNTOLD, known.message):
            log.warning("%s", message)
        known.message, known.until = message, now + _SOON_SECONDS
        return known.backoff.next()

    def tell(self, item: Item, objects: Iterable[Object | None]) -> None:
        """Warn on every object concerned that has not been told."""
        known = self._known[item]
        if known.message == UNTOLD:
            return
        for obj in objects:
            if obj is not None and (obj.uid, known.message) not in known.told:
                known.told.add((obj.uid, known.message))
                self._recorder.event(_regarding(obj), "Warning", self._reason, known.message)

    def gone(self, item: Item) -> None:
        """Nothing is in the way any more: should it be again, it is told again."""
        self._known.pop(item, None)


def _regarding(obj: Object) -> dict[str, Any]:
    metadata = {"name": obj.name, "namespace": obj.namespace, "uid": obj.uid}
    return {"apiVersion": obj.kind.api_version, "kind": obj.kind.name, "metadata": metadata}
