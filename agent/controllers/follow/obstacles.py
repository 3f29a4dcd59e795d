"""What keeps copies from where they are needed: remembered, looked at again, and told once to each object concerned."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agent.base.backoff import Backoff
from agent.clusters.deps import Deps
from agent.controllers.follow.needs import Item
from agent.kube.informer import Informer
from agent.kube.store import Key, Object

log = logging.getLogger(__name__)

REASON = "FollowBlocked"
UNTOLD = ""
"""Message of what is looked at again like any other obstacle, and told to nobody."""
LOOK_SECONDS = (2.0, 60.0)
"""First and longest pause between looks whether what is in the way has gone: nothing tells us of others' objects."""
_SOON_SECONDS = 1.0
"""However many pods ask for it: at most one look in this time."""


@dataclass
class _Obstacle:
    message: str = ""
    until: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(*LOOK_SECONDS))
    told: set[tuple[str, str]] = field(default_factory=set)


class Obstacles:
    """By item, as long as it is blocked. A moment is one of the event loop's clock, in seconds."""

    def __init__(self, deps: Deps, proxies: Informer) -> None:
        self._recorder = deps.recorder
        self._proxies = proxies
        self._known: dict[Item, _Obstacle] = {}

    def __contains__(self, item: Item) -> bool:
        return item in self._known

    def again(self, item: Item, now: float) -> float:
        """In how many seconds it is worth a look, 0 for now."""
        known = self._known.get(item)
        return max(0.0, known.until - now) if known is not None else 0.0

    def found(self, item: Item, message: str, now: float) -> float:
        """Something is in the way; returns after how many seconds to look again."""
        known = self._known.setdefault(item, _Obstacle())
        if message not in (UNTOLD, known.message):
            log.warning("%s", message)
        known.message, known.until = message, now + _SOON_SECONDS
        return known.backoff.next()

    def tell(self, item: Item, pods: Iterable[Key], original: Object | None) -> None:
        """Warn on every pod that needs the item and has not been told, and on the original."""
        known = self._known[item]
        if known.message == UNTOLD:
            return
        for obj in (original, *map(self._proxies.store.get, pods)):
            if obj is not None and (obj.uid, known.message) not in known.told:
                known.told.add((obj.uid, known.message))
                self._recorder.event(_regarding(obj), "Warning", REASON, known.message)

    def gone(self, item: Item) -> None:
        """Nothing is in the way any more: should it be again, it is told again."""
        self._known.pop(item, None)


def _regarding(obj: Object) -> dict[str, Any]:
    metadata = {"name": obj.name, "namespace": obj.namespace, "uid": obj.uid}
    return {"apiVersion": obj.kind.api_version, "kind": obj.kind.name, "metadata": metadata}
