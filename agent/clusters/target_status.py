"""The status of Targets: what rooms say of one within moments is written in one patch."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.api.conditions import with_changes
from agent.api.kinds import TARGET_KINDS
from agent.clusters.cluster import Cluster
from agent.kube.errors import BadRequest, Conflict, Forbidden, Invalid, KubeError, NotFound
from agent.kube.store import Key, Object
from agent.model.diff import same

Raw = dict[str, Any]

GATHER_SECONDS = 0.03
"""What wakes one room of a Target wakes others: so long is waited for what they say."""
_REFUSED = (BadRequest, Forbidden, Invalid)
"""Answers that what was said may be the reason for."""


@dataclass(eq=False)
class _Saying:
    """What one room says."""

    obj: Object
    """The Target that the room has looked at."""
    status: Raw
    """As it was then."""
    fields: Mapping[str, Any]
    error: KubeError | None = None
    done: bool = False


@dataclass
class _Desk:
    """What is to be written of one Target, and whose turn it is to write it."""

    sayings: list[_Saying] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class TargetStatus:
    """One writer for each Target. Who says something waits until it is written, and hears why if it is not.

    Whoever comes first gathers for a moment and writes for all. If it is ended meanwhile, the next one does.
    """

    def __init__(self, local: Cluster) -> None:
        self._objects = local.either(TARGET_KINDS)
        self._desks: dict[Key, _Desk] = {}

    async def write(self, obj: Object, fields: Mapping[str, Any]) -> None:
        """Have the status of a Target say this. Raises KubeError: NotFound if it is gone, Conflict if it is another.

        :param obj: as the caller has looked at it
        :param fields: of the status, None takes one away; of `conditions`, all that there are to be where the caller
            has looked: those that others change meanwhile stay theirs
        """
        status = obj.decode().get("status") or {}
        if not changes(status, [(status, fields)]):
            return
        saying = _Saying(obj, status, fields)
        desk = self._desks.setdefault(obj.key, _Desk())
        desk.sayings.append(saying)
        try:
            async with desk.turn:
                if not saying.done:
                    await asyncio.sleep(GATHER_SECONDS)
                    await self._write_all(desk)
        finally:
            if not saying.done:
                desk.sayings.remove(saying)
            self._clear(obj.key, desk)
        if saying.error is not None:
            raise saying.error

    async def patch_metadata(self, obj: Object, metadata: Raw) -> None:
        """Patch metadata between two writes of the status: neither makes the other fail. Raises KubeError.

        Who says something meanwhile is written together afterwards.
        """
        desk = self._desks.setdefault(obj.key, _Desk())
        try:
            async with desk.turn:
                newest = self._objects.get(obj.key)
                if newest is None or not _asks_the_same(obj, newest) or obj.finalizers != newest.finalizers:
                    newest = obj
                await self._objects.patch(obj.key, {"metadata": {"resourceVersion": newest.version, **metadata}})
        finally:
            self._clear(obj.key, desk)

    def _clear(self, key: Key, desk: _Desk) -> None:
        if not desk.sayings and not desk.turn.locked() and self._desks.get(key) is desk:
            del self._desks[key]

    async def _write_all(self, desk: _Desk) -> None:
        sayings = list(desk.sayings)
        await self._write(sayings)
        for saying in sayings:
            saying.done = True
        desk.sayings = [saying for saying in desk.sayings if not saying.done]

    async def _write(self, sayings: list[_Saying]) -> None:
        """One patch for all; where it is refused, one for each, so that only those hear it who are the reason."""
        base = self._objects.get(sayings[-1].obj.key)
        if base is None:
            for saying in sayings:
                saying.error = NotFound(404, "NotFound", f"{saying.obj.kind} {saying.obj.name} is gone")
            return
        answered = [saying for saying in sayings if _asks_the_same(saying.obj, base)]
        for saying in sayings:
            saying.error = None if saying in answered else _overtaken(base)
        status = base.decode().get("status") or {}
        body = changes(status, ((saying.status, saying.fields) for saying in answered))
        if not body:
            return
        try:
            await self._objects.patch(
                base.key, {"metadata": {"resourceVersion": base.version}, "status": body}, sub="status"
            )
        except _REFUSED as error:
            if len(answered) == 1:
                answered[0].error = error
                return
            for saying in answered:
                await self._write([saying])
        except KubeError as error:
            for saying in answered:
                saying.error = error


def changes(status: Mapping[str, Any], said: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Raw:
    """What of a status changes when all this is said of it: fields, each time with the status that they were made for.

    The last word counts, for each condition and for each other field.
    """
    result = dict(status)
    for before, fields in said:
        conditions = result.get("conditions")
        result |= fields
        if "conditions" in fields:
            told = with_changes(conditions, before.get("conditions"), fields["conditions"])
            # An empty list says no more than none.
            result["conditions"] = told or (conditions and [])
    return {name: value for name, value in result.items() if not same(value, status.get(name))}


def _asks_the_same(obj: Object, other: Object) -> bool:
    """Whether two versions of a Target differ in no more than status, labels and finalizers: what is said of the one is
    true of the other.
    """
    if obj.version == other.version:
        return True
    what = (obj.uid, obj.deleting, obj.head.metadata.generation, obj.annotations)
    return what == (other.uid, other.deleting, other.head.metadata.generation, other.annotations)


def _overtaken(obj: Object) -> Conflict:
    return Conflict(409, "Conflict", f"{obj.kind} {obj.name} has changed meanwhile")
