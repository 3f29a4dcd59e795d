"""The extender's endpoint: plain HTTP on a loopback address, or TLS for clients with a certificate signed by our CA."""

import asyncio
import logging
import ssl
from pathlib import Path

from aiohttp import web

from agent.base.clock import Clock
from agent.clusters.cluster import Cluster
from agent.extender.holds import BINDS, Holds
from agent.extender.wire import MAX_BODY_BYTES, Malformed, parse, result
from agent.runtime.httpserver import HttpServer
from agent.runtime.listening import listen
from agent.settings import InvalidSetting, Settings

log = logging.getLogger(__name__)

PATH = "/bind"
_BODY_SECONDS = 5.0
_KEEPALIVE_SECONDS = 120.0
"""Longer than the 90 s after which Go's clients close idle connections, so that we never close one during a request."""
_SHUTDOWN_SECONDS = 3.0
_CONNECTIONS = 256
"""Maximum connections without a certificate of our CA; the scheduler's own are not limited."""
_ON_LOOPBACK = 10_000
"""Maximum connections in plain HTTP, one for each held pod; only processes of the same pod can open them."""
_CERTIFICATE_SECONDS = 60.0
"""Interval between checks for renewed certificate files."""


class Extender:
    """Serves `bindVerb: bind`. Every response is an ExtenderBindingResult: for others, the scheduler reports only
    the code.
    """

    def __init__(self, local: Cluster, clock: Clock, settings: Settings) -> None:
        """Load the certificate of the server and the CA of its clients.

        :raises InvalidSetting: if the certificate cannot be used
        """
        host, _, port = settings.extender_address.rpartition(":")
        self._address = (host.strip("[]"), int(port))
        self._certificate = (settings.extender_cert, settings.extender_key)
        self._loaded = self._stamp()
        self._tls = _tls(settings) if settings.extender_cert else None
        self._holds = Holds(local, clock, settings.hold)
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post(PATH, self._bind)
        self._server = HttpServer(
            app,
            "extender",
            connections=_CONNECTIONS if self._tls else _ON_LOOPBACK,
            keepalive=_KEEPALIVE_SECONDS,
            tls=self._tls,
            shutdown=_SHUTDOWN_SECONDS,
            handler_cancellation=True,
        )

    async def start(self) -> None:
        """Start to answer requests.

        :raises OSError: if the port is in use
        """
        await self._server.start(listen(*self._address))
        log.info("bind extender on %s port %d, %s", *self._address, "TLS" if self._tls else "plain HTTP")

    async def run(self) -> None:
        """Load renewed certificates until cancelled; then answer all holds, and stop."""
        try:
            while True:
                await asyncio.sleep(_CERTIFICATE_SECONDS)
                self._renew()
        finally:
            self._holds.stop()
            await self._server.stop()
            await self._holds.settle(_SHUTDOWN_SECONDS)

    async def _bind(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                asked = parse(await request.read())
        except (Malformed, web.HTTPException, TimeoutError) as error:
            BINDS.labels("malformed").inc()
            return _answer(_malformed(error))
        try:
            refusal = await self._holds.bind(asked)
        except Exception:
            log.exception("bind of %s/%s failed unexpectedly", asked.namespace, asked.name)
            refusal = "the extender failed unexpectedly: see its log"
        if refusal:
            log.debug("pod %s/%s not bound: %s", asked.namespace, asked.name, refusal)
        return _answer(refusal)

    def _stamp(self) -> tuple[int, ...]:
        """Return modification times that change with the certificate; empty while it cannot be read."""
        try:
            return tuple(Path(file).stat().st_mtime_ns for file in self._certificate if file)
        except OSError:
            return ()

    def _renew(self) -> None:
        stamp = self._stamp()
        if self._tls is None or stamp == self._loaded:
            return
        try:
            self._tls.load_cert_chain(*self._certificate)
        except OSError as error:
            log.warning("certificate of the bind extender not renewed: %s", error)
        else:
            self._loaded = stamp


def _tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(settings.extender_cert, settings.extender_key)
    except OSError as error:
        files = f"extender-cert={settings.extender_cert}, extender-key={settings.extender_key}"
        raise InvalidSetting(f"{files}: no certificate and key in PEM that fit ({error})") from error
    try:
        context.load_verify_locations(settings.extender_client_ca)
    except OSError as error:
        raise InvalidSetting(
            f"--tuning=extender-client-ca={settings.extender_client_ca}: no CA certificate in PEM ({error})"
        ) from error
    return context


def _answer(error: str) -> web.Response:
    return web.Response(body=result(error), content_type="application/json")


def _malformed(error: Exception) -> str:
    match error:
        case TimeoutError():
            return f"the body did not come within {_BODY_SECONDS:.0f} s"
        case web.HTTPRequestEntityTooLarge():
            return f"the body is longer than {MAX_BODY_BYTES} bytes"
        case _:
            return f"{error}"
