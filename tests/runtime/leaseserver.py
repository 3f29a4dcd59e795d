"""A model of an API server that has one Lease: requests arrive late, answers get lost, and both overtake each other."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from agent.kube.errors import AlreadyExists, Conflict, Invalid, NotFound, ServerError, Unreachable

Raw = dict[str, Any]

CLIENT_SECONDS = 10.0
"""Seconds after which a client gives up a request."""


class Way(NamedTuple):
    """Delays and the loss of one request."""

    there: float = 0.0
    """Seconds until the API server carries it out."""
    back: float = 0.0
    """Seconds from then until its answer arrives."""
    lost: str = ""
    """`request`: it is never carried out; `answer`: its answer never arrives; `refused` and `failed`: the answer is an
    error of the server, and the request is not, or is, carried out."""


class LeaseServer:
    """The state, and what every client has done to it."""

    def __init__(self) -> None:
        self.lease: Raw | None = None
        self.on_write: Callable[[str], None] = lambda holder: None
        """Called with the new holder after each write."""
        self._version = 0

    def read(self) -> Raw:
        """Return the Lease."""
        if self.lease is None:
            raise NotFound(404, "NotFound", "lease")
        return copy.deepcopy(self.lease)

    def create(self, lease: Raw) -> None:
        """Create the Lease."""
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "lease")
        self._write(copy.deepcopy(lease))

    def update(self, lease: Raw) -> None:
        """Replace the Lease, if it has the version that the new one was made from."""
        if lease["metadata"]["resourceVersion"] != self.read()["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "lease")
        self._write(copy.deepcopy(lease))

    def patch(self, body: list[Raw]) -> None:
        """Apply a JSON Patch, all of it or nothing."""
        lease = self.read()
        for each in body:
            *parents, last = (part.replace("~1", "/") for part in each["path"].split("/")[1:])
            at = lease
            for part in parents:
                at = at.get(part, {})
            if each["op"] != "add" and last not in at:
                raise Invalid(422, "Invalid", each["path"])
            if each["op"] == "test" and at[last] != each["value"]:
                raise Invalid(422, "Invalid", each["path"])
            at[last] = each["value"]
        self._write(lease)

    def _write(self, lease: Raw) -> None:
        self._version += 1
        lease["metadata"]["resourceVersion"] = str(self._version)
        self.lease = lease
        self.on_write(str(lease["spec"].get("holderIdentity") or ""))


class LeaseClient:
    """One candidate's client. A request that is given up may be carried out all the same."""

    def __init__(self, server: LeaseServer, way: Callable[[str], Way]) -> None:
        """:param way: returns delays and loss of the next request, by its method"""
        self._server = server
        self._way = way
        self._tasks = set[asyncio.Task[Any]]()

    async def get(self, kind: object, name: str, namespace: str) -> Raw:
        """Read the Lease."""
        return await self._send("get", self._server.read) or {}

    async def create_raw(self, kind: object, lease: Raw) -> None:
        """Create the Lease."""
        await self._send("create", lambda: self._server.create(lease))

    async def update_raw(self, kind: object, lease: Raw) -> None:
        """Replace the Lease."""
        await self._send("update", lambda: self._server.update(lease))

    async def patch_raw(self, kind: object, name: str, body: list[Raw], namespace: str, *, style: str) -> None:
        """Apply a JSON Patch to the Lease."""
        assert style == "json"
        await self._send("patch", lambda: self._server.patch(body))

    async def _send(self, method: str, does: Callable[[], Raw | None]) -> Raw | None:
        task = asyncio.create_task(self._carry_out(self._way(method), does))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        done, _ = await asyncio.wait((task,), timeout=CLIENT_SECONDS)
        if not done:
            raise Unreachable("no answer")
        return task.result()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        """Retrieve the error of a request that was given up, since asyncio reports errors that are not."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _carry_out(self, way: Way, does: Callable[[], Raw | None]) -> Raw | None:
        await asyncio.sleep(way.there)
        found, error = None, None
        if way.lost not in ("request", "refused"):
            try:
                found = does()
            except (AlreadyExists, Conflict, Invalid, NotFound) as each:
                error = each
        await asyncio.sleep(way.back if way.lost not in ("request", "answer") else 10 * CLIENT_SECONDS)
        if way.lost:
            raise ServerError(500, "InternalError", "etcdserver: request timed out")
        if error is not None:
            raise error
        return found
