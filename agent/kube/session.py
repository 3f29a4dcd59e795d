"""One HTTP session per API server: bytes in, bytes out, errors as exceptions."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Self

import aiohttp

from agent.base.metrics import REQUESTS
from agent.kube import connector, fence
from agent.kube.config import Connection
from agent.kube.errors import Unreachable, Unsent, from_status
from agent.kube.incoming import ANSWER_LIMIT, LARGE_ANSWERS, LARGE_LINES, Lines, check_encoding, read_answer
from agent.kube.pace import Pace

REQUESTS_AT_ONCE = 32
"""Each needs a connection of its own (HTTP/1.1), whose TLS handshake costs both sides milliseconds of CPU."""

_JSON = "application/json"
_ONE_PIECE = 1 << 20
_CLOSED = "the connection to this cluster has been given up"
_RETRY_AFTER_CAP = 5.0
_MARK = "X-Kubernetes-Pf-Flowschema-Uid"
_MARKS = 100
CONNECT_SECONDS = 3.0
"""How long a new connection may take; then the request counts as never sent."""

_NO_CONNECTION = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# RuntimeError: event loops raise it for a descriptor that a broken connection has not let go of yet (seen with uvloop).
# ValueError: what a server says that no client has thought of.
_NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError, RuntimeError, ValueError)


class Session:
    """Requests to one API server.

    At most `limit` requests are under way at once (watches apart), so that a slow cluster holds back only those who
    wait for it. 429 is answered by waiting as long as the server asks and trying again, three times; 401 by asking
    the credentials' source for new ones, once. `date` is the server's time of day at its last answer, as HTTP has it;
    `marks` are UIDs of the few FlowSchemas that its answers came under (API Priority and Fairness): of another cluster
    these are others.
    """

    def __init__(
        self, connection: Connection, *, name: str = "", timeout: float = 10.0, limit: int = REQUESTS_AT_ONCE
    ) -> None:
        self.connection = connection
        self.name = name
        self.timeout = timeout
        self.date = ""
        self.marks: set[str] = set()
        self.pace = Pace()
        self._slots = asyncio.Semaphore(limit)
        self._large_lines = asyncio.Semaphore(LARGE_LINES)
        self._large_answers = asyncio.Semaphore(LARGE_ANSWERS)
        self._http = aiohttp.ClientSession(
            connector=connector.Connector(limit=0, ssl=connection.tls or True, keepalive_timeout=60),
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

    async def close(self) -> None:
        """End all connections."""
        await self._http.close()

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
    ) -> bytes:
        """Send one request and return the response's body, in the form that `accept` asks for (default: JSON).

        `timeout` is in seconds for the whole exchange. `at_once` does not wait behind the `limit` others that are
        under way. Raises Unreachable or a StatusError; TooLarge for a body of more than `longest` bytes.
        """
        for attempt in range(4):
            try:
                async with contextlib.nullcontext() if at_once else self._slots:
                    return await self._once(
                        method, path, params, body, content_type, resource, timeout, accept, longest
                    )
            except _Retry as retry:
                if attempt == 3 or (retry.delay == 0 and attempt > 0):
                    raise retry.error from None
                await asyncio.sleep(retry.delay)
        raise AssertionError("unreachable")

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        resource: str,
        timeout: float | None,
        accept: str,
        longest: int,
    ) -> bytes:
        outcome = "unreachable"
        if self._http.closed:
            raise Unsent(_CLOSED)
        fence.check(method)
        connector.begin()
        ticket = self.pace.begin()
        try:
            async with self._http.request(
                method,
                self.connection.server + path,
                params=params,
                # In one piece, aiohttp would hold up everything else for it.
                data=io.BytesIO(body) if body is not None and len(body) > _ONE_PIECE else body,
                headers=await self._headers(content_type if body is not None else None, accept),
                timeout=aiohttp.ClientTimeout(total=timeout or self.timeout, sock_connect=CONNECT_SECONDS),
                proxy=self.connection.proxy,
                server_hostname=self.connection.server_name,
                allow_redirects=False,
            ) as response:
                outcome = str(response.status)
                payload = await read_answer(response, longest, self._large_answers)
                self.date = response.headers.get("Date", "")
                if len(self.marks) < _MARKS:
                    self.marks.add(response.headers.get(_MARK, ""))
                self._check(response, payload)
                return payload
        except _NO_CONNECTION as error:
            raise Unsent(_explain(error, CONNECT_SECONDS)) from error
        except _NETWORK_ERRORS as error:
            raise Unreachable(_explain(error, timeout or self.timeout)) from error
        finally:
            if outcome == "unreachable":
                connector.give_up()
            self.pace.end(ticket)
            REQUESTS.labels(self.name, method, resource, outcome).inc()

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str] | None = None, idle: float = 60.0, accept: str = ""
    ) -> AsyncIterator[Lines]:
        """Open a watch: a stream of lines that ends when the server ends it.

        `idle` is how many seconds without a line count as a dead connection. Raises Unreachable or a StatusError.
        """
        if self._http.closed:
            raise Unsent(_CLOSED)
        try:
            async with self._http.get(
                self.connection.server + path,
                params=params,
                headers=await self._headers(None, accept),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.timeout, sock_read=idle),
                proxy=self.connection.proxy,
                server_hostname=self.connection.server_name,
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    try:
                        self._check(response, await read_answer(response, ANSWER_LIMIT, self._large_answers))
                    except _Retry as retry:
                        raise retry.error from None
                check_encoding(response)
                lines = Lines(response.content, self._large_lines)
                try:
                    yield lines
                finally:
                    lines.release()
        except _NETWORK_ERRORS as error:
            connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            raise Unreachable(_explain(error, self.timeout if connecting else idle)) from error

    async def _headers(self, content_type: str | None, accept: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        if accept:
            headers["Accept"] = accept
        if content_type is not None:
            headers["Content-Type"] = content_type
        authorization = await self.connection.auth.header()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def _check(self, response: aiohttp.ClientResponse, payload: bytes) -> None:
        if response.status < 300:
            return
        retry_after = response.headers.get("Retry-After", "")
        seconds = retry_after if retry_after.isascii() and retry_after.isdigit() else ""
        delay = min(float(seconds), _RETRY_AFTER_CAP) if seconds else None
        error = from_status(payload, response.status, delay)
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


def _explain(error: BaseException, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    return str(error) or type(error).__name__
