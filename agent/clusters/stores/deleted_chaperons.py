"""Chaperons whose deletion a target has reported, and whether their pods may still run.

A target's garbage collector releases a chaperon before its pod if it has not observed the pod. That can happen for half
a minute after that cluster's API server was restarted or stalled.
"""

import time
from typing import NamedTuple

import msgspec

from agent.kube.errors import UNDECODABLE
from agent.kube.store import Key, Object
from agent.model.podstate import ENDED

_LIMIT = 20_000
"""Most entries for all targets together: 8 MB."""

_Way = tuple[Key, str]
"""Key of a target and UID of a proxy pod."""


class _Spec(msgspec.Struct, rename="camel"):
    restart_policy: str = "Always"


class _Chaperon(msgspec.Struct):
    spec: _Spec


_decoder = msgspec.json.Decoder(_Chaperon)


class Departure(NamedTuple):
    """The last chaperon of a proxy pod that was in a target."""

    name: str
    uid: str
    ended: bool
    """Whether it reported the end of a pod that is not recreated, so that nothing of it runs."""
    at: float
    """Time when the deletion was observed, by the monotonic clock."""

    @classmethod
    def of(cls, chaperon: Object) -> "Departure":
        """Return the departure of a chaperon from its last state."""
        ended = chaperon.phase in ENDED and _is_made_once(chaperon)
        return cls(chaperon.name, chaperon.uid, ended, time.monotonic())


class DeletedChaperons:
    """Last departure of each proxy pod in each target, at most `limit`; for others, the target is asked."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._found: dict[_Way, Departure] = {}

    def get(self, way: _Way) -> Departure | None:
        """Return the last departure of a proxy pod in a target, None if there was none recently."""
        return self._found.get(way)

    def add(self, way: _Way, departure: Departure) -> None:
        """Record a departure; forget the oldest if there are too many."""
        self._found.pop(way, None)
        self._found[way] = departure
        if len(self._found) > self._limit:
            del self._found[next(iter(self._found))]

    def discard(self, way: _Way) -> None:
        """Forget the departure: the proxy pod may have another chaperon in that target."""
        self._found.pop(way, None)

    def forget(self, target: Key) -> None:
        """Forget a target: another cluster may get its name."""
        self._found = {way: departure for way, departure in self._found.items() if way[0] != target}


def _is_made_once(chaperon: Object) -> bool:
    try:
        return _decoder.decode(chaperon.raw).spec.restart_policy != "Always"
    except UNDECODABLE:
        return False
