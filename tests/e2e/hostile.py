"""A target that does what it can to stop its source."""

import asyncio
import contextlib
import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Self

from aiohttp import web

from agent.api.names import LABEL_PARENT_UID

BOMB = gzip.compress(bytes(64 << 20))
DEEP = b"[" * 100_000
GONE = b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}\n'
BAD = {"nodeName": 5, "priority": "x", "schedulingGates": {}, "schedulerName": []}


class Hostile:
    """Passes its probes, so that it counts as Ready, and answers everything else as no API server does.

    `told` counts the answers by kind and, for watches, how many events were sent.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.told: Counter[str] = Counter()
        self.server = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, host: str, namespace: str) -> AsyncIterator[Self]:
        """One that listens on a free port."""
        hostile = cls(namespace)
        runner = web.ServerRunner(
            web.Server(hostile._answer, access_log=None),
            handle_signals=False,
            shutdown_timeout=0.1,
            handler_cancellation=True,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, 0).start()
            hostile.server = f"http://{host}:{runner.addresses[0][1]}"
            yield hostile
        finally:
            await runner.cleanup()

    @property
    def kubeconfig(self) -> str:
        """How to reach it."""
        context = {"cluster": "h", "user": "h"}
        return json.dumps(
            {
                "clusters": [{"name": "h", "cluster": {"server": self.server}}],
                "users": [{"name": "h", "user": {"token": "t"}}],
                "contexts": [{"name": "h", "context": context}],
                "current-context": "h",
            }
        )

    def _chaperon(self, number: int, **rest: Any) -> bytes:
        labels = {LABEL_PARENT_UID: f"P{number}"}
        identity = {"name": f"c{number}", "namespace": self._namespace, "uid": f"u{number}", "labels": labels}
        return json.dumps({"metadata": {**identity, "resourceVersion": str(number + 1)}, **rest}).encode()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        watched = "watch" in request.query
        self.told[f"watch {plural}" if watched else plural] += 1
        if plural == "podchaperons" and request.method == "GET":
            return await (self._flood(request) if watched else self._listed(request))
        if watched:
            return web.Response(body=GONE)
        match plural:
            case "configmaps" | "services" | "ingresses":
                return await self._endless(request, 200)
            case "secrets" | "endpointslices":
                return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})
            case "resourcequotas" | "events":
                return web.Response(status=429, headers={"Retry-After": "²"})
            case "clustersummaries":
                return web.Response(status=404)
            case "leases" | "version":
                return web.Response(body=b'{"metadata":{},"items":' + DEEP)
            case _:
                return await self._endless(request, 500)

    async def _listed(self, request: web.BaseRequest) -> web.StreamResponse:
        items = [self._chaperon(number, spec=BAD, status=5) for number in range(100)]
        return web.Response(body=b'{"metadata":{"resourceVersion":"100"},"items":[%s]}' % b",".join(items))

    async def _flood(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        number = 200
        while True:
            events = []
            for _ in range(100):
                number += 1
                rest = {} if number % 3 else {"spec": BAD}
                events.append(b'{"type":"ADDED","object":%s}\n' % self._chaperon(number, **rest))
            events.append(b'{"type":"MODIFIED","object":%s,"x":%s}\n' % (self._chaperon(number), DEEP))
            await response.write(b"".join(events))
            self.told["events"] += len(events)
            await asyncio.sleep(0)

    async def _endless(self, request: web.BaseRequest, status: int) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b" " * 65536)
        return response
