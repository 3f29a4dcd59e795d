"""Deletes the objects of a source in a cluster: its pods, then the copies that they needed, and claims on request."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from agent.api.kinds import CHAPERONS, LEASES, PERSISTENT_VOLUME_CLAIMS, Kind
from agent.cli.options import Failed
from agent.cli.orphaned.queries import labels, read_leases
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from agent.model import heartbeats

_DELETIONS = 16
"""Concurrent deletions."""
_POLL_SECONDS = 0.5


async def clean(client: Client, uid: str, say: Callable[[str], None], *, volumes: bool, seconds: float) -> None:
    """Delete all objects of a source, and its heartbeats; volume claims stay unless `volumes`.

    Raises Failed if pods do not end in time, KubeError.

    :param seconds: time that pods may take to end
    """
    for kind, label in labels():
        if kind == PERSISTENT_VOLUME_CLAIMS and not volumes:
            continue
        try:
            found = await client.list(kind, labels=f"{label}={uid}")
        except NotFound:
            continue
        if not found:
            continue
        say(f"deleting {len(found)} {kind.plural}")
        limit = asyncio.Semaphore(_DELETIONS)
        await asyncio.gather(*(_delete(client, limit, kind, each["metadata"]) for each in found))
        if kind == CHAPERONS:
            # A chaperon is deleted after its pod (foreground propagation). Only then may the pod's dependencies be
            # deleted.
            await _gone(client, f"{label}={uid}", seconds)
    for lease in await read_leases(client):
        metadata = lease["metadata"]
        keys = heartbeats.keys_of(metadata.get("annotations"), uid)
        if keys:
            patch = {"metadata": {"annotations": dict.fromkeys(keys)}}
            await client.patch_raw(LEASES, metadata["name"], patch, metadata["namespace"])


async def _delete(client: Client, limit: asyncio.Semaphore, kind: Kind, metadata: dict[str, Any]) -> None:
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    async with limit:
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(kind, name, namespace, uid=uid, propagation="Foreground" if kind == CHAPERONS else None)


async def _gone(client: Client, selector: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := await client.list(CHAPERONS, labels=selector):
        if time.monotonic() > deadline:
            shown = ", ".join(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in left[:5])
            raise Failed(
                f"{len(left)} pods are still there after {seconds:g} s ({shown}): see what holds them, and run this"
                " again; --timeout is how long they may take"
            )
        await asyncio.sleep(_POLL_SECONDS)
