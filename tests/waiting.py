"""Waiting for conditions, on the test's own event loop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from agent.api.kinds import CRDS
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, KubeError, NotFound
from agent.kube.reviews import is_allowed

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
_FIRST_SECONDS, _LONGEST_SECONDS, _SLOWER = 0.02, 0.3, 1.25


async def until(
    probe: Callable[[], T | Awaitable[T | None] | None],
    seconds: float = PATIENCE_SECONDS,
    *,
    what: str = "",
    forgiven: type[KubeError] = NotFound,
) -> T:
    """Return the result of `probe` once it is true.

    Missing objects and errors of an API server count as not yet true. Polls often at first and then less often.
    Raises AssertionError that names the condition.
    """
    last: object = None
    pause = _FIRST_SECONDS
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    found = probe()
                    value = await found if isinstance(found, Awaitable) else found
                    if value:
                        return value
                    last = value
                except forgiven as error:
                    last = error
                await asyncio.sleep(pause)
                pause = min(pause * _SLOWER, _LONGEST_SECONDS)
    except TimeoutError as error:
        waited = what or f"not true: {getattr(probe, '__qualname__', probe)}"
        raise AssertionError(f"{waited}: not within {seconds:g} s ({last})") from error


async def at_rest(read: Callable[[], T], seconds: float = 1.0) -> T:
    """Return a value that has not changed for this long. Raises AssertionError if it never settles."""

    async def still() -> tuple[T] | None:
        before = read()
        await asyncio.sleep(seconds)
        return (before,) if read() == before else None

    (found,) = await until(still, what="a figure that stays")
    return found


async def gone(
    read: Callable[[], Awaitable[object]],
    seconds: float = PATIENCE_SECONDS,
    *,
    what: str = "",
    forgiven: type[KubeError] = NotFound,
) -> None:
    """Wait until a read reports that the object does not exist."""

    async def missing() -> bool:
        try:
            await read()
        except NotFound:
            return True
        return False

    await until(missing, seconds, what=what or f"{getattr(read, '__qualname__', read)} is gone", forgiven=forgiven)


async def allowed(client: Client, namespace: str, account: str, **attributes: str) -> None:
    """Wait until a service account may do this (resource attributes): API servers observe new permissions a
    moment late."""
    user = {"user": f"system:serviceaccount:{namespace}:{account}"}
    await until(lambda: is_allowed(client, user, attributes), what=f"{account} may do {attributes}")


async def empty(found: Awaitable[Collection[object]]) -> bool:
    """Return whether a list is empty."""
    return not await found


async def defined(client: Client, crd: dict[str, Any]) -> None:
    """Create a CRD unless it exists, since applying it again is expensive."""
    try:
        await client.get(CRDS, crd["metadata"]["name"])
    except NotFound:
        with contextlib.suppress(AlreadyExists):
            await client.create(CRDS, crd)


async def unserved(client: Client, kind: object) -> None:
    """Delete a CRD with all of its objects; the next test may create one of the same name."""
    await client.delete(CRDS, str(kind))
    await gone(lambda: client.get(CRDS, str(kind)))
