"""Bodies of requests: time to read them, memory for all of them together, and turns to answer them.

Peers need no right to send a body. If memory is short, the peer (IP address) with the most loses a body. Turns go round
between peers. Small requests do not wait for large ones: all requests of an API server come from one peer.
"""

import asyncio
import contextlib
import logging
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator

from aiohttp import web

from agent.base.shares import Shares
from agent.base.sparse_log import SparseLog

SECONDS = 5.0
"""Time to read a body, and again to wait for the turn: API servers wait 10 s for the answer."""
MOST_BYTES = 32 * 1024 * 1024
"""Bodies that are read, or have been read and wait for their turn."""
MOST_DECODED = 64 * 1024 * 1024
"""Estimated memory of the decoded requests that are answered at once."""
MOST_DECODED_OF_PEER = 48 * 1024 * 1024
"""Part of that for one peer, and for one request. A request of 3 MiB with strings of ten bytes takes 25 MiB."""
SMALL = 1024 * 1024
"""Largest estimated memory of a request that overtakes larger ones of its peer."""
RESERVED = 8 * 1024 * 1024
"""Estimated memory of such requests that are answered in addition to `MOST_DECODED`."""
RESERVED_OF_PEER = 4 * 1024 * 1024
"""Part of that for one peer."""
_BYTES_PER = {b",": 80, b"[": 80, b"{": 112, b":": 40}
"""Estimated memory in bytes of a value, a list, a dict and an entry of a dict, by the token before it."""

log = logging.getLogger(__name__)


def decoded_size(body: bytes | bytearray) -> int:
    """Estimate the memory in bytes of a JSON document together with the objects that it is decoded to.

    One character beyond U+00FF makes Python store each character of its string in up to four bytes.
    """
    is_narrow = body.isascii() and body.count(b"\\u") == body.count(b"\\u00")
    texts = len(body) * (1 if is_narrow else 4)
    return len(body) + texts + sum(size * body.count(token) for token, size in _BYTES_PER.items())


class _Body:
    """A request, from the first byte of its body to its answer."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.deadline: asyncio.Timeout | None = None
        """Ends the request if it expires; None while it is answered."""
        self.data = bytearray()
        """Not a local variable: frames live on in the traceback of a refusal, which aiohttp keeps as the answer."""
        self.is_read = False
        self.evicted = False

    def evict(self) -> None:
        """End the request, for another one needs the memory."""
        self.evicted = True
        self.data = bytearray()
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time())


class Bodies:
    """The bodies that one listener is sent."""

    def __init__(self, name: str) -> None:
        """:param name: of the listener, for the log"""
        self._name = name
        self._held: Shares[_Body] = Shares()
        self._answered: Shares[_Body] = Shares()
        """Requests in progress whose memory counts towards `MOST_DECODED`."""
        self._reserve: Shares[_Body] = Shares()
        """Requests in progress whose memory counts towards `RESERVED`."""
        self._waiting: dict[str, deque[tuple[asyncio.Future[None], _Body, int]]] = {}
        """Requests that wait for their turn, small ones first, by peer; the peer whose turn is next comes first."""
        self._refusals = defaultdict[int, SparseLog](lambda: SparseLog(log))
        """By status of the answer, so that many of one kind hide none of another."""

    @contextlib.asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[bytes]:
        """Read a body and wait for the turn, which lasts as long as this context.

        Raises HTTPException: 408 if it does not come in time, 413 if it is too long, 503 if memory is short.
        """
        body = _Body(request.remote or "unknown")
        try:
            yield await self._bounded(request, body)
        finally:
            body.data = bytearray()
            self._held.release(body.peer, body)
            self._answered.release(body.peer, body)
            self._reserve.release(body.peer, body)
            self._grant()

    async def _bounded(self, request: web.Request, body: _Body) -> bytes:
        try:
            async with asyncio.timeout(SECONDS) as body.deadline:
                await self._collect(request, body)
            async with asyncio.timeout(SECONDS) as body.deadline:
                await self._turn(body, decoded_size(body.data))
            # A request that is answered cannot be ended for another one. `_answered` counts its body from now on.
            self._held.release(body.peer, body)
            data, body.data = bytes(body.data), bytearray()
            return data
        except (TimeoutError, web.HTTPException) as error:
            refused = error if isinstance(error, web.HTTPException) else _late(body)
            told = (self._name, body.peer, refused.status, (refused.text or "").strip())
            self._refusals[refused.status].warning("%s: request of %s refused (%d): %s", *told)
            if not body.is_read:
                refused.force_close()
            raise refused from error
        finally:
            body.deadline = None

    async def _collect(self, request: web.Request, body: _Body) -> None:
        limit = request.client_max_size
        if (request.content_length or 0) > limit:
            raise _too_large(f"the body has {request.content_length} bytes, of {limit} that are served")
        while chunk := await _next(request):
            if len(body.data) + len(chunk) > limit:
                raise _too_large(f"the body has more than the {limit} bytes that are served")
            body.data += chunk
            self._held.take(body.peer, body, len(chunk))
            self._make_room()
            if body.evicted:
                raise TimeoutError
        body.is_read = True

    def _make_room(self) -> None:
        """End requests of the heaviest peer: first unfinished bodies, the oldest first."""
        while self._held.total > MOST_BYTES:
            _, held = self._held.heaviest()
            ended = next((each for each in held if not each.is_read), list(held)[-1])
            self._held.release(ended.peer, ended)
            ended.evict()

    async def _turn(self, body: _Body, size: int) -> None:
        if size > MOST_DECODED_OF_PEER:
            raise _too_large(f"the body takes about {size} bytes decoded, of {MOST_DECODED_OF_PEER} that are served")
        if (size <= SMALL or body.peer not in self._waiting) and self._begin(body, size):
            return
        turn = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(body.peer, deque())
        ahead = sum(each <= SMALL for _, _, each in waiting) if size <= SMALL else len(waiting)
        waiting.insert(ahead, (turn, body, size))
        await turn

    def _begin(self, body: _Body, size: int) -> bool:
        """Take the memory to answer a request. Return False if it does not fit now."""
        if size <= SMALL and _fits(self._reserve, body.peer, size, RESERVED, RESERVED_OF_PEER):
            self._reserve.take(body.peer, body, size)
        elif _fits(self._answered, body.peer, size, MOST_DECODED, MOST_DECODED_OF_PEER):
            self._answered.take(body.peer, body, size)
        else:
            return False
        return True

    def _grant(self) -> None:
        """Let requests be answered that fit now, one of each peer after the other."""
        while sum(self._grant_first(peer) for peer in list(self._waiting)):
            pass

    def _grant_first(self, peer: str) -> bool:
        waiting = self._waiting[peer]
        # Expired waiters have been cancelled.
        while waiting and waiting[0][0].done():
            waiting.popleft()
        granted = bool(waiting) and self._begin(*waiting[0][1:])
        if granted:
            waiting.popleft()[0].set_result(None)
        if granted or not waiting:
            del self._waiting[peer]
            if waiting:
                # Behind the other peers.
                self._waiting[peer] = waiting
        return granted


def _fits(shares: Shares[_Body], peer: str, size: int, most: int, most_of_peer: int) -> bool:
    return shares.total + size <= most and shares.of(peer) + size <= most_of_peer


async def _next(request: web.Request) -> bytes:
    try:
        return await request.content.readany()
    except (ConnectionError, ssl.SSLError, web.RequestPayloadError) as error:
        raise web.HTTPBadRequest(text=f"the body ended early: {error}\n") from error


def _late(body: _Body) -> web.HTTPException:
    if body.evicted:
        return _unavailable(f"bodies of requests take more than {MOST_BYTES} bytes in memory")
    if body.is_read:
        return _unavailable(f"the requests before this one take longer than {SECONDS:.0f} s")
    return web.HTTPRequestTimeout(text=f"the body did not come within {SECONDS:.0f} s\n")


def _unavailable(reason: str) -> web.HTTPException:
    return web.HTTPServiceUnavailable(text=f"{reason}: try again\n", headers={"Retry-After": "1"})


def _too_large(reason: str) -> web.HTTPException:
    return web.HTTPRequestEntityTooLarge(0, 0, text=f"{reason}\n")
