"""The HTTPS endpoint the API server calls, and its certificate, replaced while connections go on."""

import logging
import ssl

from aiohttp import web

from agent.base.certificates import Pair
from agent.runtime.httpserver import HttpServer
from agent.runtime.listening import BACKLOG, bind

KEEPALIVE_SECONDS = 120.0
"""Longer than the 90 s after which API servers drop idle connections, so that we never close one under a request."""
SHUTDOWN_SECONDS = 4.0
"""Seconds that open requests may take to end; a process has 10 s in all."""
CONNECTIONS = 512
"""Connections at once. Each costs up to 200 KiB; an API server has one for each request under way."""

_log = logging.getLogger(__name__)


class Tls:
    """A server's TLS context; `load` replaces the certificate for connections that come after."""

    def __init__(self, client_ca: str | None = None) -> None:
        """`client_ca` is a file of CAs: only clients with a certificate of one of these are served. Raises OSError."""
        self._client_ca = client_ca
        self.context = self._new()
        self.context.sni_callback = self._choose
        self._chosen = self.context
        self.loaded: Pair | None = None

    def load(self, pair: Pair) -> bool:
        """Serve this certificate from now on; False when it was served already. Raises ssl.SSLError."""
        if pair == self.loaded:
            return False
        # A context of its own: one context serves an earlier certificate further where its key is of another kind.
        fresh = self._new()
        pair.load(fresh)
        self._chosen, self.loaded = fresh, pair
        return True

    def _new(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called at every handshake, also of clients that name no server."""
        connection.context = self._chosen


class Server:
    """The endpoint on a socket."""

    def __init__(self, app: web.Application, tls: Tls, host: str, port: int) -> None:
        """Take the address, so that a port in use is known at once. Raises OSError.

        :param host: empty for all addresses of both IP families
        """
        try:
            self._sockets = bind(host, port)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} (--bind)") from error
        self._server = HttpServer(
            app,
            "webhook",
            connections=CONNECTIONS,
            keepalive=KEEPALIVE_SECONDS,
            tls=tls.context,
            shutdown=SHUTDOWN_SECONDS,
        )
        self.serving = False

    @property
    def port(self) -> int:
        """The port taken (chosen by the kernel when 0 was asked for)."""
        return int(self._sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Answer requests from now on; twice is the same as once."""
        if self.serving:
            return
        for each in self._sockets:
            each.listen(BACKLOG)
        await self._server.start(self._sockets)
        self.serving = True
        _log.info("serving on port %d", self.port)

    async def stop(self) -> None:
        """Take no new connections; let requests under way end."""
        self.serving = False
        await self._server.stop()
        for each in self._sockets:
            each.close()
