"""Size limits for data from API servers: a target is not trusted and may send anything."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp

from agent.base.progress import expect, progressed
from agent.kube.errors import TooLarge, Unreadable

LINE_LIMIT = 16 * 1024 * 1024
"""Longest watch event in bytes. etcd takes objects of 1.5 MiB, as JSON these have up to six times as many."""
_HEAD = 64 * 1024
"""Bytes that are kept of a longer line: the object's identity is at its beginning."""
_HOPELESS = 4 * LINE_LIMIT
"""An event that has not ended by then ends the watch."""
ANSWER_LIMIT = LINE_LIMIT
"""Byte limit of an answer: one object, with a margin."""
PAGE_LIMIT = 2 * LINE_LIMIT
"""Byte limit of a list page: 500 objects of 64 KiB, while real pods have 5 to 20; larger ones come in smaller pages."""
ERROR_LIMIT = 1024 * 1024
"""Byte limit of an error's body; of a longer one only the status counts."""
_LARGE = 512 * 1024
"""Byte size above which only a few answers are received at once."""
LARGE_LINES = 2
LARGE_ANSWERS = 3
_LINE_SECONDS = 300.0
"""Seconds that a large event may take: other events wait for it."""
_TURN_SECONDS = 600.0
"""Maximum seconds that a large answer waits for other large answers."""


def check_encoding(response: aiohttp.ClientResponse) -> None:
    """Raise Unreadable for a compressed answer, which the agent never requests: few bytes may expand to gigabytes."""
    encoding = response.headers.get("Content-Encoding", "")
    if encoding.strip().lower() not in ("", "identity"):
        raise Unreadable(f"the answer is compressed ({encoding}), which was not asked for")


async def read_answer(response: aiohttp.ClientResponse, limit: int, slots: asyncio.Semaphore) -> bytes:
    """The body of an answer; one that has come to more than 512 KiB waits for one of `slots`.

    Raises TooLarge, Unreadable; of an answer that is an error, what cannot be read is empty.
    """
    failed = response.status >= 300
    try:
        check_encoding(response)
        return await _read(response.content, min(limit, ERROR_LIMIT) if failed else limit, slots)
    except Unreadable:
        if failed:
            return b""
        raise


async def _read(content: aiohttp.StreamReader, limit: int, slots: asyncio.Semaphore) -> bytes:
    pieces: list[bytes] = []
    size, has_slot = 0, False
    try:
        while piece := await content.readany():
            pieces.append(piece)
            size += len(piece)
            progressed()
            if size > limit:
                raise TooLarge(f"the answer is longer than {limit >> 20} MiB")
            if size > _LARGE and not has_slot:
                expect(_TURN_SECONDS)
                await slots.acquire()
                has_slot = True
    finally:
        if has_slot:
            slots.release()
    return b"".join(pieces)


class Overlong(bytes):
    """The beginning of a line that is longer than is read."""


class Lines:
    """The lines of a watch, each with its end; of an overlong line only the beginning, `Overlong`.

    A line cut off by a lost connection is omitted: the resumed watch repeats it. A line of more than 512 KiB waits for
    one of `slots`. Raises TooLarge for a line without an end, Unreadable for one that takes too long.
    """

    def __init__(self, content: aiohttp.StreamReader, slots: asyncio.Semaphore) -> None:
        self._content = content
        self._slots = slots
        self._begun = bytearray()
        self._dropped = 0
        self._has_slot = False
        self._until: float | None = None
        """When a line that holds a slot must have ended, by the event loop's clock."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._more():
            start = 0
            while end := chunk.find(b"\n", start) + 1:
                yield self._finished(chunk[start:end])
                start = end
            if start < len(chunk):
                await self._keep(chunk[start:])

    def release(self) -> None:
        """Stop reading lines."""
        self._begun, self._dropped = bytearray(), 0
        if self._has_slot:
            self._has_slot, self._until = False, None
            self._slots.release()

    async def _more(self) -> bytes:
        if self._until is None:
            return await self._content.readany()
        limit = asyncio.timeout_at(self._until)
        try:
            async with limit:
                return await self._content.readany()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Unreadable(f"a large event has not ended within {_LINE_SECONDS:g} s") from error

    def _finished(self, end: bytes) -> bytes:
        if not self._begun and len(end) <= LINE_LIMIT:
            return end
        self._begun += end
        too_long = self._dropped or len(self._begun) > LINE_LIMIT
        line = Overlong(self._begun[:_HEAD]) if too_long else bytes(self._begun)
        self.release()
        return line

    async def _keep(self, part: bytes) -> None:
        if self._dropped:
            self._dropped += len(part)
            if self._dropped > _HOPELESS:
                raise TooLarge(f"an event has no end after {_HOPELESS >> 20} MiB")
            return
        self._begun += part
        if len(self._begun) > _LARGE and not self._has_slot:
            await self._slots.acquire()
            self._has_slot, self._until = True, asyncio.get_running_loop().time() + _LINE_SECONDS
        if len(self._begun) > LINE_LIMIT:
            head, length = self._begun[:_HEAD], len(self._begun)
            self.release()
            self._begun, self._dropped = head, length
