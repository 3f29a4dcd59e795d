"""Obstacles of copies: remembered, re-checked, and reported once to each object concerned."""

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
"""Message of an obstacle that is re-checked but not reported."""
LOOK_SECONDS = (2.0, 60.0)
"""First and longest pause in seconds between re-checks: foreign objects are not watched."""
_SOON_SECONDS = 1.0
"""Seconds in which a copy is re-checked at most once, however many requests arrive."""


@dataclass
class _Known:
    message: str = ""
    until: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(*LOOK_SECONDS))
    told: set[tuple[str, str]] = field(default_factory=set)


class BlockedCopies(Generic[Item]):
    """Copies that cannot be created or changed now, by item. Times are seconds of the event loop's clock."""

    def __init__(self, recorder: Recorder, reason: str) -> None:
        """:param reason: of the Warning events"""
        self._recorder = recorder
        self._reason = reason
        self._known: dict[Item, _Known] = {}

    def __contains__(self, item: Item) -> bool:
        return item in self._known

    def items(self) -> list[Item]:
        """Return all blocked copies."""
        return list(self._known)

    def message(self, item: Item) -> str:
        """Return the obstacle; empty if there is none."""
        known = self._known.get(item)
        return known.message if known is not None else ""

    def again(self, item: Item, now: float) -> float:
        """Return the seconds until the next check, 0 for now."""
        known = self._known.get(item)
        return max(0.0, known.until - now) if known is not None else 0.0

    def found(self, item: Item, message: str, now: float) -> float:
        """Record an obstacle; return the seconds until the next check."""
        known = self._known.setdefault(item, _Known())
        if message not in (UNTOLD, known.message):
            log.warning("%s", message)
        known.message, known.until = message, now + _SOON_SECONDS
        return known.backoff.next()

    def tell(self, item: Item, objects: Iterable[Object | None]) -> None:
        """Emit a warning on every object concerned that has none yet."""
        known = self._known[item]
        if known.message == UNTOLD:
            return
        for obj in objects:
            if obj is not None and (obj.uid, known.message) not in known.told:
                known.told.add((obj.uid, known.message))
                self._recorder.event(_regarding(obj), "Warning", self._reason, known.message)

    def gone(self, item: Item) -> None:
        """Forget the obstacle; a new one is reported again."""
        self._known.pop(item, None)


def _regarding(obj: Object) -> dict[str, Any]:
    metadata = {"name": obj.name, "namespace": obj.namespace, "uid": obj.uid}
    return {"apiVersion": obj.kind.api_version, "kind": obj.kind.name, "metadata": metadata}
