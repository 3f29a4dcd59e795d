"""Writes EndpointSlices for gateways: many concurrently, losses of ready endpoints first."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agent.api.kinds import ENDPOINT_SLICES
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.diff import merge_patch
from agent.runtime.task_group import side_by_side

Raw = dict[str, Any]
Write = tuple[Object | None, Raw | None]
"""Existing and wanted slice; None if there is none."""

WRITES_AT_ONCE = 24
"""Writes under way at once; the API client allows 32 requests."""


class Writes(NamedTuple):
    """Writes of one GatewayPeer's slices."""

    closing: list[Write]
    """Writes that remove ready endpoints: until then callers are sent to gateways that cannot serve them."""
    others: list[Write]


def writes(existing: Iterable[Object], wanted: Mapping[str, Raw]) -> Writes:
    """Return the writes that correct the slices; none for correct ones."""
    found, known = Writes([], []), {obj.name: obj for obj in existing}
    for name in [*known, *(each for each in wanted if each not in known)]:
        obj, manifest = known.get(name), wanted.get(name)
        lost = _ready(obj.decode()) - _ready(manifest) if obj is not None else frozenset()
        (found.closing if lost else found.others).append((obj, manifest))
    return found


def _ready(slice: Raw | None) -> frozenset[tuple[str, int]]:
    """Return the ready endpoints of a slice by address and port."""
    if slice is None:
        return frozenset()
    return frozenset(
        (address, port["port"])
        for each in slice.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready")
        for address in each["addresses"]
        for port in slice.get("ports") or ()
    )


class SliceWriter:
    """Writes slices for all GatewayPeers."""

    def __init__(self, client: Client, made: Informer) -> None:
        """:param made: informer of the slices that the agent has created"""
        self._client = client
        self._made = made
        self._slots = asyncio.Semaphore(WRITES_AT_ONCE)

    async def apply(self, found: Iterable[Write]) -> None:
        """Write slices concurrently. Raises KubeError of the first failure after the others have been written."""
        await side_by_side([self._write(*each) for each in found])

    async def _write(self, obj: Object | None, manifest: Raw | None) -> None:
        async with self._slots:
            if manifest is None:
                if obj is not None:
                    with contextlib.suppress(NotFound, Conflict):
                        await self._client.delete(ENDPOINT_SLICES, obj.name, obj.namespace, uid=obj.uid)
            elif obj is None:
                with contextlib.suppress(AlreadyExists):
                    self._made.absorb(await self._client.create_raw(ENDPOINT_SLICES, manifest))
            else:
                found = obj.decode()
                old, new = ({field: each.get(field) for field in ("ports", "endpoints")} for each in (found, manifest))
                if body := merge_patch(old, new):
                    with contextlib.suppress(NotFound):
                        raw = await self._client.patch_raw(ENDPOINT_SLICES, obj.name, body, obj.namespace)
                        self._made.absorb(raw)
