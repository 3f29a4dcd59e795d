"""Watch lines of any length, read in bounded memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kube import incoming
from agent.kube.errors import Unreadable
from agent.kube.incoming import Lines, Overlong
from tests.examples import examples


class Content:
    """Content of a response, delivered in pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)

    async def readany(self) -> bytes:
        return next(self._pieces, b"")


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LINE_LIMIT", 40), ("_HEAD", 8), ("_LARGE", 10), ("_HOPELESS", 1000)):
            patch.setattr(incoming, name, value)
        yield


async def read(pieces: list[bytes], slots: asyncio.Semaphore) -> AsyncIterator[bytes]:
    lines = Lines(Content(pieces), slots)  # type: ignore[arg-type]
    async for line in lines:
        assert len(lines._begun) <= incoming.LINE_LIMIT
        yield line
    lines.release()


PIECES = st.lists(st.lists(st.sampled_from([b"a", b"bb" * 5, b"\n", b"c" * 50]), min_size=1).map(b"".join))


@given(PIECES)
@settings(max_examples=examples(300))
async def test_lines_come_whole_however_they_are_cut_and_of_long_ones_the_beginning(pieces: list[bytes]) -> None:
    slots = asyncio.Semaphore(1)
    whole = b"".join(pieces).split(b"\n")[:-1]
    if max(map(len, [*whole, b"".join(pieces).rpartition(b"\n")[2]])) > 900:
        return
    found = [line async for line in read(pieces, slots)]
    assert len(found) == len(whole)
    for line, wanted in zip(found, whole, strict=True):
        if len(wanted) < incoming.LINE_LIMIT:
            assert (line, isinstance(line, Overlong)) == (wanted + b"\n", False)
        else:
            assert isinstance(line, Overlong)
            assert (wanted + b"\n").startswith(line)
            assert len(line) == 8
    assert not slots.locked()


async def test_of_long_lines_only_so_many_are_received_at_once() -> None:
    slots = asyncio.Semaphore(1)
    got: list[bytes] = []

    async def follow() -> None:
        got.extend([line async for line in read([b"a" * 20, b"b" * 10 + b"\n", b"c\n"], slots)])

    await slots.acquire()
    task = asyncio.create_task(follow())
    for _ in range(5):
        await asyncio.sleep(0)
    assert got == []
    slots.release()
    await task
    assert [len(line) for line in got] == [31, 2]
    assert not slots.locked()


async def test_a_large_line_that_does_not_end_lets_others_have_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stops(Content):
        async def readany(self) -> bytes:
            if found := await super().readany():
                return found
            await asyncio.Event().wait()
            return b""

    monkeypatch.setattr(incoming, "_LINE_SECONDS", 0.05)
    slots = asyncio.Semaphore(1)
    lines = Lines(Stops([b"x" * 20]), slots)  # type: ignore[arg-type]
    with pytest.raises(Unreadable, match=r"has not ended within 0\.05 s"):
        await anext(aiter(lines))
    lines.release()
    assert not slots.locked()
