"""Unreadable objects of a watched kind, and objects that subscribers fail at: counted always, reported once."""

import logging
from collections.abc import Callable

from agent.api.kinds import Kind
from agent.base.listeners import tell
from agent.base.metrics import UNREADABLE, WATCH_FAILURES
from agent.base.recent import Recent
from agent.kube.client import Client
from agent.kube.errors import one_line
from agent.kube.store import Key, Object
from agent.model.abridged import abridged

log = logging.getLogger(__name__)

_KNOWN = 1000
_LOGGED = 100
_NAMED = 3
_WHY = 300
_NAME = 200

Listener = Callable[[Key, str], None]
"""Called with an object's key and the read error; empty if the object is readable again or has been deleted."""


class Flaws:
    """The objects of one watch that cannot be read, or only in part, with the reasons; at most 1,000 of them.

    The first hundred are logged, once each.
    """

    def __init__(self, client: Client, kind: Kind) -> None:
        self._client = client
        self._kind = kind
        self._known: dict[Key, str] = {}
        self._named: set[Key] = set()
        self._logged = Recent(_LOGGED)
        self._listeners: list[Listener] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def subscribe(self, listener: Listener) -> None:
        """Call for every object that cannot be read now, and whenever that changes."""
        self._listeners.append(listener)
        for key, why in self._known.items():
            listener(key, why)

    def found(self, key: Key, why: str) -> None:
        """Record an object that cannot be read."""
        UNREADABLE.labels(self._client.name, self._kind.plural).inc()
        why = one_line(why, _WHY)
        if self._known.get(key) == why or (key not in self._known and len(self._known) >= _KNOWN):
            return
        self._known[key] = why
        if len(self._named) < _LOGGED and key not in self._named:
            self._named.add(key)
            log.warning("%s %s in cluster %s cannot be read: %s", self._kind, _name(key), self._cluster, why)
        self._tell(key, why)

    def gone(self, key: Key) -> None:
        """Clear the flaw of an object that can be read or has been deleted."""
        if self._known.pop(key, None) is not None:
            self._tell(key, "")

    def failed(self, obj: Object, error: Exception, who: str = "") -> None:
        """Something of ours failed at an object: the same failure is logged once, whatever the object."""
        WATCH_FAILURES.labels(self._client.name, self._kind.plural).inc()
        if self._first(f"{who} {type(error).__name__}"):
            place = (who or "an index", self._kind, _name(obj.key), self._cluster)
            log.error("%s fails at %s %s in cluster %s", *place, exc_info=error)

    def told(self) -> str:
        """Which objects cannot be read and why, in one line for users; empty when all can."""
        return abridged([f"{self._kind} {_name(key)} ({why})" for key, why in sorted(self._known.items())], _NAMED)

    @property
    def _cluster(self) -> str:
        return self._client.name or "local"

    def _first(self, what: str) -> bool:
        first = what not in self._logged
        if first:
            self._logged.add(what)
        return first

    def _tell(self, key: Key, why: str) -> None:
        tell(self._listeners, key, why)


def _name(key: Key) -> str:
    return one_line("/".join(key).lstrip("/"), _NAME)
