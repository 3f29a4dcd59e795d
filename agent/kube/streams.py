"""Requests with a streamed answer: logs, and upgraded connections (exec, attach, port-forward).

The content is not parsed: the caller splices it with another channel. Each request has its own connection.
"""

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from agent.base.metrics import REQUESTS
from agent.kube import http_headers
from agent.kube.channel import Channel, ChannelClosed, TooLong
from agent.kube.errors import StatusError, Unreachable, Unsent, from_status
from agent.kube.http_headers import BadHead, Headers
from agent.kube.resolving import Resolver
from agent.kube.responsiveness import CONNECT_SECONDS
from agent.kube.session import Session

_HEAD_BYTES = 64 * 1024
_ERROR_BYTES = 256 * 1024
_ERROR_SECONDS = 5.0
_HANDSHAKE_SECONDS = 10.0
_PORTS = {"https": 443, "http": 80}

Query = Sequence[tuple[str, str]]


class Answer:
    """The head of an answer, and the connection that delivers the rest."""

    def __init__(self, status: int, headers: Headers, channel: Channel) -> None:
        self.status = status
        self.headers = headers
        self.channel = channel

    async def error(self) -> StatusError:
        """Return the error in an answer with an unexpected status; closes the connection."""
        body = b""
        try:
            async with asyncio.timeout(_ERROR_SECONDS):
                body = await self._body()
        except (TimeoutError, OSError, ValueError):
            pass
        finally:
            self.channel.close()
        return from_status(body, self.status)

    async def _body(self) -> bytes:
        if "chunked" in self.headers.tokens("Transfer-Encoding"):
            return await self._chunks()
        length = self.headers.get("Content-Length")
        wanted = min(http_headers.number(length), _ERROR_BYTES) if length else _ERROR_BYTES
        body = b""
        while len(body) < wanted and (data := await self.channel.read(wanted - len(body))):
            body += data
        return body

    async def _chunks(self) -> bytes:
        body = b""
        while size := http_headers.chunk_size(await self.channel.read_until(b"\r\n", 64)):
            if len(body) + size > _ERROR_BYTES:
                break
            end = len(body) + size
            while len(body) < end:
                if not (data := await self.channel.read(end - len(body))):
                    raise ChannelClosed("the connection was closed in the middle of an answer")
                body += data
            await self.channel.read_until(b"\r\n", 2)
        return body


async def connect(session: Session) -> Channel:
    """Return a connection to the session's API server. Raises Unsent."""
    connection = session.connection
    server = urlsplit(connection.server)
    try:
        if connection.proxy:
            channel = await _through(session.resolver, urlsplit(connection.proxy), server)
        else:
            channel = await _dial(session.resolver, server)
    except TimeoutError as error:
        raise Unsent(f"no connection within {CONNECT_SECONDS:g} s") from error
    except (OSError, ValueError) as error:
        raise Unsent(str(error) or type(error).__name__) from error
    if server.scheme == "https":
        await _secure(channel, connection.tls or ssl.create_default_context(), connection.server_name, server)
    return channel


async def ask(
    session: Session,
    channel: Channel,
    method: str,
    path: str,
    query: Query,
    headers: Iterable[tuple[str, str]],
    *,
    resource: str,
    timeout: float | None,
) -> Answer:
    """Send a request on a new connection and read the head of the answer, within `timeout` seconds (None: no limit).

    The connection is closed when this fails or is cancelled. Raises Unreachable, or InvalidConfig for credentials
    that cannot be had.
    """
    outcome = "unreachable"
    try:
        head = await _head(session, method, path, query, headers)
        async with asyncio.timeout(timeout):
            await channel.write(head)
            answer = await _answer(channel)
        outcome = str(answer.status)
        if answer.status == 401:
            session.connection.auth.expire()
        return answer
    except TimeoutError as error:
        channel.abort()
        raise Unreachable(f"no answer within {timeout:g} s") from error
    except (OSError, BadHead, TooLong) as error:
        channel.abort()
        raise Unreachable(str(error) or type(error).__name__) from error
    except BaseException:
        channel.abort()
        raise
    finally:
        REQUESTS.labels(session.name, method, resource, outcome).inc()


async def _head(session: Session, method: str, path: str, query: Query, headers: Iterable[tuple[str, str]]) -> bytes:
    authorization = await session.connection.auth.header()
    server = urlsplit(session.connection.server)
    target = server.path.rstrip("/") + quote(path)
    start = f"{method} {target}{'?' + urlencode(query) if query else ''} HTTP/1.1"
    own = [("Host", server.netloc.rpartition("@")[2]), ("User-Agent", "flotilla")]
    if authorization is not None:
        own.append(("Authorization", authorization))
    return http_headers.render(start, [*own, *headers])


async def _answer(channel: Channel) -> Answer:
    start, headers = http_headers.split(await channel.read_until(http_headers.END, _HEAD_BYTES))
    return Answer(http_headers.status(start), headers, channel)


async def _dial(resolver: Resolver, server: SplitResult) -> Channel:
    port = server.port or _PORTS[server.scheme]
    failed = OSError(f"{server.hostname} has no address")
    async with asyncio.timeout(CONNECT_SECONDS):
        for address in await resolver.addresses(str(server.hostname), port):
            try:
                _, channel = await asyncio.get_running_loop().create_connection(Channel, address, port)
            except OSError as error:
                failed = error
            else:
                return channel
    raise failed


async def _through(resolver: Resolver, proxy: SplitResult, server: SplitResult) -> Channel:
    """Return a tunnel through an HTTP proxy (CONNECT)."""
    channel = await _dial(resolver, proxy)
    host = f"[{server.hostname}]" if ":" in str(server.hostname) else server.hostname
    where = f"{host}:{server.port or _PORTS[server.scheme]}"
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if proxy.scheme == "https":
                await channel.start_tls(ssl.create_default_context(), hostname=proxy.hostname)
            await channel.write(http_headers.render(f"CONNECT {where} HTTP/1.1", [("Host", where)]))
            answer = await _answer(channel)
    except BaseException:
        channel.abort()
        raise
    if answer.status != 200:
        channel.abort()
        raise ChannelClosed(f"the proxy answers with HTTP status {answer.status}")
    return channel


async def _secure(channel: Channel, context: ssl.SSLContext, name: str | None, server: SplitResult) -> None:
    try:
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            await channel.start_tls(context, hostname=name or server.hostname)
    except TimeoutError as error:
        channel.abort()
        raise Unsent(f"no TLS handshake within {_HANDSHAKE_SECONDS:g} s") from error
    except (OSError, ValueError) as error:
        # ssl.SSLError is an OSError.
        channel.abort()
        raise Unsent(str(error) or type(error).__name__) from error
    except BaseException:
        channel.abort()
        raise
