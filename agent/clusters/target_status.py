"""The status of Targets: what several controllers write of one within moments goes into one patch."""

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
"""What wakes one controller of a Target wakes others: for so long their writes are waited for."""
_REFUSED = (BadRequest, Forbidden, Invalid)
"""Answers that may be due to what one of the writes contains."""


@dataclass(eq=False)
class _StatusWrite:
    """Write that one controller wants."""

    obj: Object
    """Target that the controller has read."""
    status: Raw
    """As it was then."""
    fields: Mapping[str, Any]
    error: KubeError | None = None
    done: bool = False


@dataclass
class _Pending:
    """Writes to the status of one Target that wait to be made together, and the lock of who makes them."""

    writes: list[_StatusWrite] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TargetStatus:
    """One writer for each Target. Each caller waits until its part is written, and gets the error if it is not.

    The first caller waits a moment for others and writes for all. If it is cancelled meanwhile, the next one does.
    """

    def __init__(self, local: Cluster) -> None:
        self._objects = local.either(TARGET_KINDS)
        self._pending: dict[Key, _Pending] = {}

    async def write(self, obj: Object, fields: Mapping[str, Any]) -> None:
        """Write fields of a Target's status. Raises KubeError: NotFound if it is gone, Conflict if it has changed.

        :param obj: as the caller has looked at it
        :param fields: of the status, None takes one away; of `conditions`, all that there are to be where the caller
            has looked: those that others change meanwhile stay theirs
        """
        status = obj.decode().get("status") or {}
        if not changes(status, [(status, fields)]):
            return
        write = _StatusWrite(obj, status, fields)
        pending = self._pending.setdefault(obj.key, _Pending())
        pending.writes.append(write)
        try:
            async with pending.lock:
                if not write.done:
                    await asyncio.sleep(GATHER_SECONDS)
                    await self._write_all(pending)
        finally:
            if not write.done:
                pending.writes.remove(write)
            self._clear(obj.key, pending)
        if write.error is not None:
            raise write.error

    async def patch_metadata(self, obj: Object, metadata: Raw) -> None:
        """Patch metadata between two writes of the status: neither makes the other fail. Raises KubeError.

        What others write meanwhile is written together afterwards.
        """
        pending = self._pending.setdefault(obj.key, _Pending())
        try:
            async with pending.lock:
                newest = self._objects.get(obj.key)
                if newest is None or not _differs_in_status_alone(obj, newest) or obj.finalizers != newest.finalizers:
                    newest = obj
                await self._objects.patch(obj.key, {"metadata": {"resourceVersion": newest.version, **metadata}})
        finally:
            self._clear(obj.key, pending)

    def _clear(self, key: Key, pending: _Pending) -> None:
        if not pending.writes and not pending.lock.locked() and self._pending.get(key) is pending:
            del self._pending[key]

    async def _write_all(self, pending: _Pending) -> None:
        writes = list(pending.writes)
        await self._write(writes)
        for write in writes:
            write.done = True
        pending.writes = [write for write in pending.writes if not write.done]

    async def _write(self, writes: list[_StatusWrite]) -> None:
        """One patch for all; where it is refused, one for each, so that only the callers at fault get the error."""
        base = self._objects.get(writes[-1].obj.key)
        if base is None:
            for write in writes:
                write.error = NotFound(404, "NotFound", f"{write.obj.kind} {write.obj.name} is gone")
            return
        current = [write for write in writes if _differs_in_status_alone(write.obj, base)]
        for write in writes:
            write.error = None if write in current else _overtaken(base)
        status = base.decode().get("status") or {}
        body = changes(status, ((write.status, write.fields) for write in current))
        if not body:
            return
        try:
            await self._objects.patch(
                base.key, {"metadata": {"resourceVersion": base.version}, "status": body}, sub="status"
            )
        except _REFUSED as error:
            if len(current) == 1:
                current[0].error = error
                return
            for write in current:
                await self._write([write])
        except KubeError as error:
            for write in current:
                write.error = error


def changes(status: Mapping[str, Any], writes: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Raw:
    """Fields of a status that change by several writes: each has its fields, and the status that these were made for.

    The last write counts, for each condition and for each other field.
    """
    result = dict(status)
    for before, fields in writes:
        conditions = result.get("conditions")
        result |= fields
        if "conditions" in fields:
            told = with_changes(conditions, before.get("conditions"), fields["conditions"])
            # An empty list says no more than none.
            result["conditions"] = told or (conditions and [])
    return {name: value for name, value in result.items() if not same(value, status.get(name))}


def _differs_in_status_alone(obj: Object, other: Object) -> bool:
    """Whether two versions of a Target differ in no more than status, labels and finalizers: a status made for one fits
    the other.
    """
    if obj.version == other.version:
        return True
    what = (obj.uid, obj.deleting, obj.head.metadata.generation, obj.annotations)
    return what == (other.uid, other.deleting, other.head.metadata.generation, other.annotations)


def _overtaken(obj: Object) -> Conflict:
    return Conflict(409, "Conflict", f"{obj.kind} {obj.name} has changed meanwhile")
