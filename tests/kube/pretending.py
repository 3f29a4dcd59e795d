"""Loopback server that imitates an API server for one kind, with answers that the test chooses."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Self

from aiohttp import web

from agent.api.kinds import CHAPERONS
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.session import Session
from agent.kube.undecodable import sketch
from tests.kube.objects import raw


class Pretender:
    """Server that answers lists with `items` at `version`, and watches with all present and future `lines`."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.version = "100"
        self.lines: list[bytes] = []
        self.lists: list[str] = []
        """Limits of the received list requests."""
        self.listed_at: list[float] = []
        self.watches: list[str] = []
        """Resource versions that the received watches began at."""
        self.watched_at: list[float] = []
        self._versions: dict[bytes, int] = {}
        self.wait = 0.0
        """Seconds for which an idle watch stays open; 0 until the client closes it."""
        self.date = ""
        """`Date` header of answers to requests for the version; empty to omit it."""
        self._restored = 0
        self._lists = asyncio.Event()
        self._lists.set()
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """Return a client of this server."""
        assert self._client is not None
        return self._client

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls) -> AsyncIterator[Self]:
        """Start a server on a free port."""
        server = cls()
        runner = web.ServerRunner(
            web.Server(server._answer, access_log=None), handle_signals=False, shutdown_timeout=0.1
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            async with Session(Connection(f"http://127.0.0.1:{runner.addresses[0][1]}"), timeout=5) as session:
                server._client = Client(session)
                yield server
        finally:
            await runner.cleanup()

    def tell(self, kind: str, obj: bytes) -> None:
        """Append an event to the watches that have not sent it yet."""
        line = b'{"type":"%s","object":%s}\n' % (kind.encode(), obj)
        told = sketch(line, event=True)
        assert told is not None
        self._versions[line] = int(told.version)
        self.lines.append(line)

    def restore(self, items: list[bytes], version: int) -> None:
        """Restore these items at a version without further history, and end open watches."""
        self.items, self.version = items, str(version)
        self.lines, self._versions = [], {}
        self._restored += 1

    def hold_lists(self) -> None:
        """Delay answers to lists until `release_lists`."""
        self._lists.clear()

    def release_lists(self) -> None:
        """Answer the delayed lists."""
        self._lists.set()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watched(request)
        if request.query.get("resourceVersion") == "":
            latest = max(int(self.version), *self._versions.values(), 0)
            headers = {"Date": self.date} if self.date else None
            return web.json_response({"metadata": {"resourceVersion": str(latest)}, "items": []}, headers=headers)
        await self._lists.wait()
        self.listed_at.append(asyncio.get_running_loop().time())
        self.lists.append(request.query.get("limit", ""))
        start, size = int(request.query.get("continue", "0")), int(request.query["limit"])
        items = self.items[start : start + size]
        more = str(start + size) if start + size < len(self.items) else ""
        if "PartialObjectMetadata" in request.headers["Accept"]:
            items = [json.dumps({"metadata": identity(item)}).encode() for item in items]
        head = json.dumps({"resourceVersion": self.version, "continue": more}).encode()
        return web.Response(body=b'{"metadata":%s,"items":[%s]}' % (head, b",".join(items)))

    async def _watched(self, request: web.BaseRequest) -> web.StreamResponse:
        self.watched_at.append(asyncio.get_running_loop().time())
        self.watches.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        said, restored = 0, self._restored
        since = asyncio.get_running_loop().time()
        while not self.wait or asyncio.get_running_loop().time() < since + self.wait:
            if restored != self._restored:
                break
            for line in self.lines[said:]:
                if self._versions.get(line, 1 << 64) > int(request.query["resourceVersion"]):
                    await response.write(line)
            said = len(self.lines)
            await asyncio.sleep(0.01)
        return response


def identity(obj: bytes) -> dict[str, Any]:
    """Return the metadata of an object made by `chaperon`, however deeply the rest is nested."""
    end = obj.index(b"}") + 1
    metadata: dict[str, Any] = json.loads(obj[obj.index(b':{"name"') + 1 : end])
    return metadata


def chaperon(name: str, version: int, more: bytes = b"") -> bytes:
    """Return a PodChaperon with `more` after its metadata."""
    return raw(name, version)[:-1] + more + b"}"


BAD_TYPES = {
    "a node that is a number": b',"spec":{"nodeName":5}',
    "a priority that is a word": b',"spec":{"priority":"x"}',
    "gates that are a word": b',"spec":{"schedulingGates":"x"}',
    "a phase that is a list": b',"status":{"phase":[]}',
    "a spec that is a word": b',"spec":"x"',
}
"""Parts of PodChaperons with one unreadable field each."""
DEEP = b',"spec":{"x":' + b"[" * 5000 + b"]" * 5000 + b"}"
"""Field nested too deeply for all decoders in use."""
KIND = CHAPERONS
