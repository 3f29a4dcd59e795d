"""Writer of the status of Targets. It merges writes of several controllers within moments into one patch."""

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
"""Seconds for which a write waits for others: the event that triggers one controller of a Target triggers several."""
_REFUSED = (BadRequest, Forbidden, Invalid)
"""Errors that the content of one of the writes may have caused."""


@dataclass(eq=False)
class _StatusWrite:
    """Requested write of one controller."""

    obj: Object
    """Target that the controller has read."""
    status: Raw
    """Status of that Target."""
    fields: Mapping[str, Any]
    error: KubeError | None = None
    done: bool = False


@dataclass
class _Pending:
    """Pending writes to the status of one Target, and the lock of their writer."""

    writes: list[_StatusWrite] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class TargetStatus:
    """One writer for each Target. Each caller waits until its part is written, or gets the error.

    The first caller waits briefly for others and writes for all. If it is cancelled meanwhile, the next caller
    writes.
    """

    def __init__(self, local: Cluster) -> None:
        self._objects = local.either(TARGET_KINDS)
        self._pending: dict[Key, _Pending] = {}

    async def write(self, obj: Object, fields: Mapping[str, Any]) -> None:
        """Write fields of a Target's status. Raises NotFound if it was deleted, Conflict if it changed, other
        KubeErrors.

        :param obj: Target on which the caller's decision is based
        :param fields: fields of the status, None removes one; `conditions` contains all of the caller's view:
            conditions that other callers change meanwhile are kept
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
        """Patch metadata between two writes of the status, so that neither makes the other fail. Raises KubeError.

        Writes that other callers request meanwhile are merged afterwards.
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
        """Send one patch for all writes. If it is refused, send one for each, so that only faulty writes get
        the error.
        """
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
    """Return the fields of a status that several writes change. A write has its fields and the status they are
    based on.

    The last write counts, for each condition and for each other field.
    """
    result = dict(status)
    for before, fields in writes:
        conditions = result.get("conditions")
        result |= fields
        if "conditions" in fields:
            told = with_changes(conditions, before.get("conditions"), fields["conditions"])
            # Empty and missing lists are equivalent, so None avoids a needless change.
            result["conditions"] = told or (conditions and [])
    return {name: value for name, value in result.items() if not same(value, status.get(name))}


def _differs_in_status_alone(obj: Object, other: Object) -> bool:
    """Return whether two versions of a Target differ only in status, labels and finalizers.

    A status computed for one of them then fits the other.
    """
    if obj.version == other.version:
        return True
    what = (obj.uid, obj.deleting, obj.head.metadata.generation, obj.annotations)
    return what == (other.uid, other.deleting, other.head.metadata.generation, other.annotations)


def _overtaken(obj: Object) -> Conflict:
    return Conflict(409, "Conflict", f"{obj.kind} {obj.name} has changed meanwhile")
