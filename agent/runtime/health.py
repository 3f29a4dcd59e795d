"""/healthz, /readyz, /cluster and /metrics over plain HTTP."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from agent.model import hostport
from agent.runtime.exposition import EXPOSITION
from agent.runtime.httpserver import HttpServer
from agent.runtime.listening import listen

CONNECTIONS = 64
"""Connections at once to a port for health or metrics."""
_KEEPALIVE_SECONDS = 75.0
"""Prometheus keeps connections between scrapes. Most scrape intervals are a minute or less."""
CLUSTER_PATH = "/cluster"
"""Path that sources request to check that they reach pods of the intended cluster."""

Check = Callable[[], str | None]
"""Gives the reason why something is not well, None when it is."""


class Health:
    """Serves nothing but health, metrics and the UID of the process's cluster, so it needs no authentication."""

    def __init__(self, address: str, *, metrics: bool = True) -> None:
        """:param metrics: False if another server serves them"""
        self._address = address
        self._metrics = metrics
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self.cluster: str | None = None
        """UID of the cluster of this process; empty until it is known, None if the path is not served."""

    def live(self, name: str, check: Check) -> None:
        """Add a check to /healthz: failing means that only a restart helps."""
        self._live[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Add a check to /readyz."""
        self._ready[name] = check

    async def serve(self) -> None:
        """Serve until cancelled. Raises OSError when the port is taken."""
        app = web.Application()
        app.router.add_get("/healthz", _answers(self._live))
        app.router.add_get("/readyz", _answers(self._ready))
        app.router.add_get(CLUSTER_PATH, self._tell_cluster)
        if self._metrics:
            app.router.add_get("/metrics", EXPOSITION.answer)
        await serve(app, self._address, "health")

    async def _tell_cluster(self, request: web.Request) -> web.Response:
        if self.cluster is None:
            raise web.HTTPNotFound
        return web.json_response({"cluster": self.cluster}, status=200 if self.cluster else 503)


async def serve(app: web.Application, address: str, name: str, tls: ssl.SSLContext | None = None) -> None:
    """Serve at HOST:PORT until cancelled. Raises OSError when the port is taken."""
    sockets = listen(*hostport.split(address))
    server = HttpServer(app, name, connections=CONNECTIONS, keepalive=_KEEPALIVE_SECONDS, tls=tls)
    try:
        await server.start(sockets)
        await asyncio.Event().wait()
    finally:
        await server.stop()


def _answers(checks: dict[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        failed = {name: reason for name, check in checks.items() if (reason := check())}
        if not failed:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="".join(f"{name}: {reason}\n" for name, reason in sorted(failed.items())))

    return answer


def heartbeat(limit: float) -> tuple[Callable[[], None], Check]:
    """A pulse and the check that it has been felt within `limit` seconds."""
    last = time.monotonic()

    def pulse() -> None:
        nonlocal last
        last = time.monotonic()

    def check() -> str | None:
        silent = time.monotonic() - last
        return f"no sign of life for {silent:.0f} s" if silent > limit else None

    return pulse, check
