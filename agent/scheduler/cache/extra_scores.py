"""Extra scores: AddOnPlacementScores of targets, watched in the local cluster if it serves their kind.

They are in the namespace of the target's ManagedCluster, or without one in a namespace named like the target.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated

import msgspec

from agent.api.kinds import Kind
from agent.base.clock import Clock
from agent.clusters.cluster import Cluster
from agent.clusters.optional_watch import OptionalWatch
from agent.kube.errors import UNDECODABLE
from agent.kube.store import Object
from agent.ranking.extrascore import ExtraScore
from agent.ranking.snapshot import Extra

_LONGEST_TIMER_SECONDS = 3600.0


class _Score(msgspec.Struct):
    name: str = ""
    value: int = 0


class _Status(msgspec.Struct, rename="camel"):
    scores: list[_Score] | None = None
    valid_until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Object(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Object)


class ExtraScores:
    """Calls `changed` with the namespace in which a score changed or expired; None for any namespace."""

    def __init__(
        self,
        local: Cluster,
        wanted: Iterable[ExtraScore],
        clock: Clock,
        interval: float,
        changed: Callable[[str | None], None],
    ) -> None:
        self._wanted = [(score, kind_of(score)) for score in wanted]
        self._clock = clock
        self._changed = changed
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watched = {
            kind: OptionalWatch(local.port, kind, None, interval, self._object_changed, lambda: self._changed(None))
            for kind in {kind for _, kind in self._wanted}
        }

    def of(self, namespace: str) -> Mapping[str, Extra]:
        """Return the unexpired scores in a namespace; expired scores count as missing.

        Schedules `changed` for when the first of them expires.
        """
        found: dict[str, Extra] = {}
        now = self._clock.now()
        for score, kind in self._wanted:
            store = self._watched[kind].store
            obj = store.get((namespace, score.object)) if store is not None else None
            extra = read_score(obj, score.score) if obj is not None else None
            if extra is not None and extra.counts(now):
                found[score.name] = extra
        ends = [extra.until for extra in found.values() if extra.until is not None]
        self._wake(namespace, (min(ends) - now).total_seconds() if ends else None)
        return found

    def _wake(self, namespace: str, seconds: float | None) -> None:
        timer = self._timers.pop(namespace, None)
        if timer is not None:
            timer.cancel()
        if seconds is not None:
            delay = min(seconds, _LONGEST_TIMER_SECONDS)
            self._timers[namespace] = asyncio.get_running_loop().call_later(delay, self._changed, namespace)

    def _object_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (new, old):
            if obj is not None:
                self._changed(obj.namespace)
                return


def kind_of(score: ExtraScore) -> Kind:
    """Return the kind of the object that contains a score."""
    return Kind(score.group, score.version, score.resource, "")


def read_score(obj: Object, name: str) -> Extra | None:
    """Return one of an object's scores, even if expired; None if it has no score of this name."""
    try:
        status = _decoder.decode(obj.raw).status
    except UNDECODABLE:
        return None
    for score in status.scores or ():
        if score.name == name:
            return Extra(max(-100, min(100, score.value)), status.valid_until)
    return None
