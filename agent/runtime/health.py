"""/healthz, /readyz, /cluster and /metrics over plain HTTP."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from agent.base.metrics import REGISTRY
from agent.model import hostport

CLUSTER_PATH = "/cluster"
"""Where sources ask whether they reach the pods of the cluster that they mean."""

Check = Callable[[], str | None]
"""Gives the reason why something is not well, None when it is."""


class Health:
    """Serves nothing but health, metrics and the UID of the process's cluster, so it needs no authentication."""

    def __init__(self, address: str, *, metrics: bool = True) -> None:
        """:param metrics: off where these are served elsewhere"""
        self._address = address
        self._metrics = metrics
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self.cluster: str | None = None
        """UID of the cluster that this process is in, empty until it is known; None where nobody is to ask."""

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
            app.router.add_get("/metrics", metrics)
        await serve(app, self._address)

    async def _tell_cluster(self, request: web.Request) -> web.Response:
        if self.cluster is None:
            raise web.HTTPNotFound
        return web.json_response({"cluster": self.cluster}, status=200 if self.cluster else 503)


async def serve(app: web.Application, address: str, tls: ssl.SSLContext | None = None) -> None:
    """Serve at HOST:PORT until cancelled. Raises OSError when the port is taken."""
    host, port = hostport.split(address)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or "0.0.0.0", port, ssl_context=tls).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _answers(checks: dict[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        failed = {name: reason for name, check in checks.items() if (reason := check())}
        if not failed:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="".join(f"{name}: {reason}\n" for name, reason in sorted(failed.items())))

    return answer


async def metrics(request: web.Request) -> web.Response:
    """In the format of Prometheus."""
    return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST})


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
