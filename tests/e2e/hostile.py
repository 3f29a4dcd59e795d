"""A fake target API server that tries to stop or exhaust its source's agent."""

import asyncio
import contextlib
import functools
import gzip
import json
import math
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Self

from aiohttp import web

from agent.api.names import ANNOTATION_NODE_SHAPES, LABEL_PARENT_CLUSTER_UID, LABEL_PARENT_UID, SUMMARY_NAME

DEEP = b"[" * 100_000
GONE = b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}\n'
BAD = b',"spec":{"nodeName":5,"priority":"x","schedulingGates":{},"schedulerName":[]}'
BLANK = b" " * 65536
DIGITS = "9" * 5000
ENDLESS_LENGTH = f"HTTP/1.1 200 OK\r\nContent-Length: {DIGITS}\r\n\r\n{{".encode()
LONG = b',"spec":{"containers":[{"name":"main","args":["%s"]}]}' % (b"\\u003c" * (1 << 20))
SUMMARIES: tuple[dict[str, Any], ...] = (
    {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
    {"allocatable": {"cpu": "lots"}},
    {"metadata": {"annotations": {ANNOTATION_NODE_SHAPES: f'[{{"allocatable":{{"cpu":"{DIGITS}"}}}}]'}}},
    {"allocatable": {"cpu": DIGITS}, "capacity": []},
)
QUOTA = b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"q"},"spec":{"hard":{"pods":"%s"}}}]}'
_SUMMARY_SECONDS = 0.1
_LONG_EVERY = 50


@functools.cache
def bomb() -> bytes:
    """Return compressed bytes that expand to 64 MiB. Built on first use, since every worker imports this
    module."""
    return gzip.compress(bytes(64 << 20))


class Link:
    """Network link with a bandwidth in bytes per second, shared by all connections."""

    def __init__(self, bandwidth: float) -> None:
        self._bandwidth = bandwidth
        self._free = 0.0

    async def carry(self, size: int) -> None:
        """Wait until the link has capacity for `size` more bytes."""
        now = asyncio.get_running_loop().time()
        self._free = max(self._free, now) + size / self._bandwidth
        await asyncio.sleep(self._free - now)


class Hostile:
    """Passes probes, so that its Target is Ready, and answers every other request with malformed or endless
    data.

    `told` counts answers by kind and, for watches, events sent.
    """

    def __init__(self, namespace: str, bandwidth: float, owner: str) -> None:
        self._namespace = namespace
        self._labels = f'"{LABEL_PARENT_CLUSTER_UID}":"{owner}","{LABEL_PARENT_UID}"'.encode()
        self._link = Link(bandwidth)
        self.told: Counter[str] = Counter()
        self.server = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def started(
        cls, host: str, namespace: str, bandwidth: float = math.inf, owner: str = ""
    ) -> AsyncIterator[Self]:
        """Start one on a free port, behind a link of `bandwidth` bytes per second.

        It claims that its chaperons were created by the cluster with UID `owner`.
        """
        hostile = cls(namespace, bandwidth, owner)
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
        """A kubeconfig for this server."""
        context = {"cluster": "h", "user": "h"}
        return json.dumps(
            {
                "clusters": [{"name": "h", "cluster": {"server": self.server}}],
                "users": [{"name": "h", "user": {"token": "t"}}],
                "contexts": [{"name": "h", "context": context}],
                "current-context": "h",
            }
        )

    def _chaperon(self, number: int, rest: bytes = b"") -> bytes:
        identity = b'"name":"c%d","namespace":"%s","uid":"u%d"' % (number, self._namespace.encode(), number)
        labels = b'"labels":{%s:"P%d"}' % (self._labels, number)
        return b'{"metadata":{%s,%s,"resourceVersion":"%d"}%s}' % (identity, labels, number + 1, rest)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        watched = "watch" in request.query
        self.told[f"watch {plural}" if watched else plural] += 1
        if plural == "podchaperons" and request.method == "GET":
            return await (self._flood(request) if watched else self._listed(request))
        if plural == "clustersummaries":
            return await (self._waver(request) if watched else self._summaries())
        if watched:
            return web.Response(body=GONE)
        if plural == "resourcequotas" and self.told[plural] % 3:
            return self._endless_length(request) if self.told[plural] % 3 == 1 else self._quotas()
        match plural:
            case "singleton":
                return web.Response(body=self._summary(0))
            case "kube-system":
                return web.Response(body=bomb())
            case "configmaps" | "services" | "ingresses":
                return await self._endless(request, 200)
            case "secrets" | "endpointslices":
                return web.Response(body=bomb(), headers={"Content-Encoding": "gzip"})
            case "resourcequotas" | "events":
                return web.Response(status=429, headers={"Retry-After": "²"})
            case "leases" | "version":
                return web.Response(body=b'{"metadata":{},"items":' + DEEP)
            case _:
                return await self._endless(request, 500)

    async def _listed(self, request: web.BaseRequest) -> web.StreamResponse:
        items = [self._chaperon(number, BAD + b',"status":5') for number in range(100)]
        return web.Response(body=b'{"metadata":{"resourceVersion":"100"},"items":[%s]}' % b",".join(items))

    async def _flood(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        number = 200
        while True:
            events = []
            for _ in range(100):
                number += 1
                rest = b"" if number % 3 else BAD
                events.append(b'{"type":"ADDED","object":%s}\n' % self._chaperon(number, rest))
            events.append(b'{"type":"MODIFIED","object":%s,"x":%s}\n' % (self._chaperon(number), DEEP))
            if number // 100 % _LONG_EVERY == 0:
                events.append(b'{"type":"MODIFIED","object":%s}\n' % self._chaperon(number, LONG))
            sent = b"".join(events)
            await self._link.carry(len(sent))
            await response.write(sent)
            self.told["events"] += len(events)

    def _summary(self, number: int) -> bytes:
        chosen = SUMMARIES[number % len(SUMMARIES)]
        metadata = {"name": SUMMARY_NAME, "uid": "s", "resourceVersion": str(number)} | chosen.get("metadata", {})
        return json.dumps(chosen | {"metadata": metadata}).encode()

    async def _summaries(self) -> web.StreamResponse:
        return web.Response(body=b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % self._summary(1))

    async def _waver(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send ClusterSummaries that change all the time and are mostly invalid."""
        response = web.StreamResponse()
        await response.prepare(request)
        number = self.told["summaries"]
        while True:
            self.told["summaries"] = number = number + 1
            await response.write(b'{"type":"MODIFIED","object":%s}\n' % self._summary(number))
            await asyncio.sleep(_SUMMARY_SECONDS)

    def _quotas(self) -> web.StreamResponse:
        return web.Response(body=QUOTA % DIGITS.encode())

    def _endless_length(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(ENDLESS_LENGTH)
        request.transport.close()
        return web.Response()

    async def _endless(self, request: web.BaseRequest, status: int) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await self._link.carry(len(BLANK))
                await response.write(BLANK)
        return response
