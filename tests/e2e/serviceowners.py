"""Software that owns the Service `web`: an operator that writes the whole object, and a forced server-side
applier."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from agent.api.kinds import SERVICES, Kind
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from tests.e2e.fleet import Fleet
from tests.e2e.shared import CLUSTERS, service

Raw = dict[str, Any]

ENDPOINTS = Kind("", "v1", "endpoints", "Endpoints")
NAME = "web"
INTERVAL_SECONDS = 1.0
QUIET_SECONDS = 3.0
"""Time without a write after which the Service counts as settled; each owner writes three times meanwhile."""


class Operator:
    """Operator that owns a Service, in the manner of controller-runtime's CreateOrUpdate.

    It sets labels, selector and ports of the Service that it reads, and writes the whole object. Then it reads the
    core/v1 Endpoints.

    :param forgets: whether it also removes annotations that it has not set
    """

    def __init__(self, client: Client, namespace: str, *, forgets: bool = False) -> None:
        self._client = client
        self._namespace = namespace
        self._forgets = forgets
        self.reconciled = 0
        """Number of times that it has written the Service."""
        self.addresses: list[str] = []
        """Ready addresses of the Endpoints when it last read them, sorted."""

    async def reconcile(self) -> None:
        """Write the Service and read its Endpoints. After a conflict, the next call tries again."""
        own = service(NAME)
        try:
            found = await self._client.get(SERVICES, NAME, self._namespace)
        except NotFound:
            await self._client.create(SERVICES, own, self._namespace)
            return
        found["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "operator"}
        found["spec"] |= own["spec"]
        if self._forgets:
            found["metadata"]["annotations"] = {}
        with contextlib.suppress(Conflict):
            await self._client.update(SERVICES, found)
            self.reconciled += 1
        self.addresses = await endpoints(self._client, self._namespace)


class Applier:
    """Server-side applier that takes conflicting fields, such as a GitOps controller."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.outcomes: list[str] = []
        """`created`, `configured` or `unchanged` for each time that it has applied the Service."""

    async def apply(self) -> None:
        """Apply the Service, and compare its resource version with the one before."""
        try:
            before = _version(await self._client.get(SERVICES, NAME, self._namespace))
        except NotFound:
            before = ""
        answer = await self._client.patch_raw(
            SERVICES, NAME, service(NAME), self._namespace, style="apply", manager="gitops"
        )
        same = _version(msgspec.json.decode(answer)) == before
        self.outcomes.append("unchanged" if same else "configured" if before else "created")


async def endpoints(client: Client, namespace: str) -> list[str]:
    """Return the ready addresses of the Service's core/v1 Endpoints, sorted; empty if it has none."""
    try:
        found = await client.get(ENDPOINTS, NAME, namespace)
    except NotFound:
        return []
    return sorted(each["ip"] for subset in found.get("subsets") or () for each in subset.get("addresses") or ())


@contextlib.asynccontextmanager
async def every_second(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run `work` every second during the block. An exception of `work` is raised at the end."""

    async def repeat() -> None:
        while True:
            await work()
            await asyncio.sleep(INTERVAL_SECONDS)

    repeating = asyncio.ensure_future(repeat())
    try:
        yield
    finally:
        repeating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await repeating


async def settled(fleet: Fleet, namespace: str) -> None:
    """Wait until the Service has had the same version in every cluster for some seconds."""
    versions: list[str] = []
    since = time.monotonic()

    async def rests() -> bool:
        nonlocal since
        found = [_version(await fleet.clients[cluster].get(SERVICES, NAME, namespace)) for cluster in CLUSTERS]
        if found != versions:
            versions[:], since = found, time.monotonic()
        return time.monotonic() - since >= QUIET_SECONDS

    await fleet.until("no cluster writes the Service any more", rests, about=namespace)


def _version(obj: Raw) -> str:
    return str(obj["metadata"]["resourceVersion"])
