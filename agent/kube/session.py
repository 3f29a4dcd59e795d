"""An HTTP session per API server: bytes in, bytes out, errors as exceptions."""

import asyncio
import contextlib
import copy
import io
import time
from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import aiohttp

from agent.base.cancelling import Interrupted, cancelled_only_if_told
from agent.base.metrics import REQUESTS
from agent.base.progress import expect, progressed
from agent.kube import responsiveness, write_guard
from agent.kube.config import Connection
from agent.kube.errors import Unreachable, Unsent, from_status
from agent.kube.incoming import ANSWER_LIMIT, LARGE_ANSWERS, LARGE_LINES, Lines, check_encoding, read_answer
from agent.kube.resolving import Resolver
from agent.kube.responsiveness import CLOSED, CONNECT_SECONDS, Limits, Pace, explain, waited
from agent.kube.tcp import Connector, begin_request, connected_socket, give_up_request
from agent.kube.urgency import is_urgent

if TYPE_CHECKING:
    from agent.kube.openings import Openings

REQUESTS_AT_ONCE = 32
"""Each needs a connection of its own (HTTP/1.1), whose TLS handshake costs both sides milliseconds of CPU."""

_JSON = "application/json"
_ONE_PIECE = 1 << 20
_RETRY_AFTER_CAP = 5.0
_MARK = "X-Kubernetes-Pf-Flowschema-Uid"
_MARKS = 100
_CLOSING_SECONDS = 5.0
_QUEUE_SECONDS = 300.0
"""Seconds that a request may wait for other requests, each of which ends."""

_NO_CONNECTION = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# RuntimeError: event loops raise it for a descriptor that a broken connection has not released yet (seen with uvloop).
# ValueError: an answer that the HTTP client does not expect.
# Interrupted: another task has closed the session meanwhile.
_NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError, RuntimeError, ValueError, Interrupted)


class Session:
    """Requests to one API server.

    At most `limit` requests run at once (except watches), so that a slow cluster delays only its own callers. After 429
    the session waits as long as the server asks and retries, three times; after 401 it asks for new credentials, once.
    `date` is the server's time of day at its last answer, in HTTP format. `marks` are UIDs of the FlowSchemas of its
    answers (API Priority and Fairness): another cluster has different ones.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        name: str = "",
        timeout: float = 10.0,
        limit: int = REQUESTS_AT_ONCE,
        connecting: float = CONNECT_SECONDS,
    ) -> None:
        self.connection = connection
        self.name = name
        self.timeout = timeout
        self.openings: Openings | None = None
        """Limit on openings of watches, shared with other clusters. None: watches do not wait for those of others."""
        self._connecting = connecting
        self.date = ""
        self.user = ""
        self.marks: set[str] = set()
        self._dated = 0.0
        self.pace = Pace()
        self._slots = asyncio.Semaphore(limit)
        self._large_lines = asyncio.Semaphore(LARGE_LINES)
        self._large_answers = asyncio.Semaphore(LARGE_ANSWERS)
        self.resolver = Resolver()
        self._http = aiohttp.ClientSession(
            connector=Connector(
                limit=0,
                ssl=connection.tls or True,
                keepalive_timeout=60,
                resolver=self.resolver,
                socket_factory=connected_socket,
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": _JSON, "Accept-Encoding": "identity", "User-Agent": "flotilla"},
            skip_auto_headers=("Content-Type",),
            read_bufsize=_ONE_PIECE,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def as_user(self, user: str) -> Self:
        """Return this session for requests that impersonate a user, which takes the right to do so.

        It shares connections and limits, and closes with this session. No groups are sent: the API server adds those of
        a service account, and impersonating others would take rights in the whole cluster.
        """
        other = copy.copy(self)
        other.user = user
        return other

    async def close(self) -> None:
        """End all connections. Pending output is dropped after some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self._http.close()
        await self.resolver.close()

    @property
    def skew(self) -> float:
        """Return the seconds that the server's clock was ahead at its last answer; 0 if the answer has no date."""
        try:
            return parsedate_to_datetime(self.date).timestamp() - self._dated
        except (ValueError, TypeError, OverflowError):
            return 0.0

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
        resource: str = "",
        timeout: float | None = None,
        at_once: bool = False,
        accept: str = "",
        longest: int = ANSWER_LIMIT,
        piecemeal: bool = False,
    ) -> bytes:
        """Send one request and return the response's body, in the form that `accept` asks for (default: JSON).

        `timeout` is in seconds for the whole exchange; with `piecemeal` for each silence in it, and 600 s for all.
        `at_once`, or `urgency.urgent`, bypasses the queue of `limit` requests. Raises Unreachable or a StatusError;
        TooLarge for a body of more than `longest` bytes.
        """
        exchange = _Exchange(method, path, params, body, content_type, resource, accept, longest)
        limits = Limits(timeout or self.timeout, piecemeal, self._connecting)
        at_once = at_once or is_urgent()
        if self._slots.locked() and not at_once:
            expect(_QUEUE_SECONDS)
        for attempt in range(4):
            try:
                async with contextlib.nullcontext() if at_once else self._slots:
                    return await self._once(exchange, limits)
            except _Retry as retry:
                if attempt == 3 or (retry.delay == 0 and attempt > 0):
                    raise retry.error from None
                await asyncio.sleep(retry.delay)
        raise AssertionError("unreachable")

    async def _once(self, exchange: "_Exchange", limits: Limits) -> bytes:
        outcome = "unreachable"
        if self._http.closed:
            raise Unsent(CLOSED)
        write_guard.check(exchange.method)
        begin_request()
        ticket = self.pace.begin()
        expect(limits.timeout)
        try:
            method, path, params, body = exchange[:4]
            headers = await self._headers(exchange.content_type if body is not None else None, exchange.accept)
            sending = self._send(method, path, params, headers, limits.of_aiohttp, body)
            # Not aiohttp's own limit: at the same moment as a cancellation it takes that back.
            with cancelled_only_if_told():
                async with asyncio.timeout(limits.total), sending as response:
                    outcome = str(response.status)
                    payload = await read_answer(response, exchange.longest, self._large_answers)
                    progressed()
                    self._note(response)
                    self._check(response, payload)
                    return payload
        except _NO_CONNECTION as error:
            raise Unsent(explain(error, limits.connecting)) from error
        except _NETWORK_ERRORS as error:
            raise Unreachable(limits.explain(error)) from error
        finally:
            if outcome == "unreachable":
                give_up_request()
            self.pace.end(ticket)
            REQUESTS.labels(self.name, exchange.method, exchange.resource, outcome).inc()

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        body: bytes | None = None,
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._http.request(
            method,
            self.connection.server + path,
            params=params,
            # In one piece, aiohttp would hold up everything else for it.
            data=io.BytesIO(body) if body is not None and len(body) > _ONE_PIECE else body,
            headers=headers,
            timeout=timeout,
            proxy=self.connection.proxy,
            server_hostname=self.connection.server_name,
            allow_redirects=False,
        )

    def _note(self, response: aiohttp.ClientResponse) -> None:
        self.date, self._dated = response.headers.get("Date", ""), time.time()
        if len(self.marks) < _MARKS:
            self.marks.add(response.headers.get(_MARK, ""))

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str] | None = None, idle: float = 60.0, accept: str = ""
    ) -> AsyncIterator[Lines]:
        """Open a watch: a stream of lines that ends when the server ends it.

        `idle` is the number of seconds without a line after which the connection counts as dead; TCP probes detect a
        lost peer within 15 s in any case. Raises Unreachable or a StatusError.
        """
        if self._http.closed:
            raise Unsent(CLOSED)
        end_opening = await self.openings.begin() if self.openings is not None else lambda: None
        try:
            headers = await self._headers(None, accept)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.timeout, sock_read=idle)
            sending = self._send("GET", path, params, headers, timeout)
            with cancelled_only_if_told():
                async with asyncio.timeout(responsiveness.OPENING_SECONDS) as opening, sending as response:
                    if response.status != 200:
                        try:
                            self._check(response, await read_answer(response, ANSWER_LIMIT, self._large_answers))
                        except _Retry as retry:
                            raise retry.error from None
                    check_encoding(response)
                    opening.reschedule(None)
                    end_opening()
                    lines = Lines(response.content, self._large_lines)
                    try:
                        yield lines
                    finally:
                        lines.release()
        except _NETWORK_ERRORS as error:
            raise Unreachable(explain(error, waited(error, self.timeout, idle))) from error
        finally:
            end_opening()

    async def _headers(self, content_type: str | None, accept: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        if accept:
            headers["Accept"] = accept
        if content_type is not None:
            headers["Content-Type"] = content_type
        authorization = await self.connection.auth.header()
        if authorization is not None:
            headers["Authorization"] = authorization
        if self.user:
            headers["Impersonate-User"] = self.user
        return headers

    def _check(self, response: aiohttp.ClientResponse, payload: bytes) -> None:
        if response.status < 300:
            return
        retry_after = response.headers.get("Retry-After", "")
        seconds = retry_after if retry_after.isascii() and retry_after.isdigit() else ""
        delay = min(float(seconds), _RETRY_AFTER_CAP) if seconds else None
        error = from_status(payload, response.status, delay)
        error.server = self.connection.server
        if response.status == 401:
            self.connection.auth.expire()
            raise _Retry(error, 0.0)
        if response.status == 429:
            raise _Retry(error, delay or 0.5)
        raise error


class _Retry(Exception):
    def __init__(self, error: Exception, delay: float) -> None:
        super().__init__()
        self.error = error
        self.delay = delay


class _Exchange(NamedTuple):
    """A request; `longest` is the maximum number of bytes of the answer's body."""

    method: str
    path: str
    params: Mapping[str, str] | None
    body: bytes | None
    content_type: str
    resource: str
    accept: str
    longest: int
