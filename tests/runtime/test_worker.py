"""Worker process for one function: a failure in it affects only its own request, and it leaves nothing behind."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.runtime.worker import Worker, WorkerFailed
from tests.waiting import until

SERVED = "tests.runtime.served:obey"


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[Worker]:
    worker = Worker(SERVED, cpu_seconds=0.2)
    yield worker
    await worker.close()


def lives(pid: int) -> bool:
    """Return whether a process runs; a zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_answers_come_from_another_process_which_stays(worker: Worker) -> None:
    assert worker.pid is None
    assert await worker.ask(b"hello") == b"hello"
    assert int(await worker.ask(b"pid")) == worker.pid != os.getpid()
    assert await worker.ask(b"") == b""


async def test_a_large_request_has_a_large_answer(worker: Worker) -> None:
    request = os.urandom(5 << 20)
    assert await worker.ask(b"x " + request) == b"x " + request


async def test_what_is_asked_at_once_is_answered_in_turn(worker: Worker) -> None:
    asked = [f"x {number}".encode() for number in range(20)]
    assert await asyncio.gather(*map(worker.ask, asked)) == asked


async def test_a_share_with_many_requests_that_fail_delays_another_by_one_of_them(worker: Worker) -> None:
    ended: list[str] = []

    async def ask(share: str, request: bytes) -> None:
        with contextlib.suppress(WorkerFailed):
            await worker.ask(request, share)
        ended.append(share)

    bad = [asyncio.create_task(ask("a", b"spin")) for _ in range(20)]
    await asyncio.sleep(0)
    await ask("b", b"hello")
    assert ended in (["b"], ["a", "b"])
    for each in bad:
        each.cancel()
    await asyncio.gather(*bad, return_exceptions=True)


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param(b"fail", "ValueError: as was asked", id="it fails"),
        pytest.param(b"fill", "MemoryError", id="it takes more memory than it may"),
        pytest.param(b"crash", "its process ended with SIGSEGV", id="it crashes"),
        pytest.param(b"exit", "its process ended with exit code 3", id="it exits"),
        pytest.param(b"spin", "it takes more than 0.2 s", id="it never ends"),
    ],
)
async def test_a_request_without_an_answer_says_why_and_the_next_has_one(
    worker: Worker, request_: bytes, want: str
) -> None:
    with pytest.raises(WorkerFailed, match=want):
        await worker.ask(request_)
    assert await worker.ask(b"next") == b"next"


async def test_a_request_that_is_cancelled_does_not_end_the_process(worker: Worker) -> None:
    pid = await worker.ask(b"pid")
    asked = asyncio.create_task(worker.ask(b"pause 0.3"))
    await asyncio.sleep(0.1)
    asked.cancel()
    assert await worker.ask(b"pid") == pid
    assert asked.cancelled()


async def test_a_worker_that_is_closed_ends_its_request(worker: Worker) -> None:
    await worker.ask(b"pid")
    asked = asyncio.create_task(worker.ask(b"pause 60"))
    await asyncio.sleep(0.1)
    await asyncio.wait_for(worker.close(), 10)
    with pytest.raises(WorkerFailed, match="SIGKILL"):
        await asked


async def test_what_is_printed_is_no_answer(worker: Worker) -> None:
    assert await worker.ask(b"print") == b"print"


async def test_who_no_longer_waits_ends_the_process(worker: Worker) -> None:
    pid = int(await worker.ask(b"pid"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await worker.ask(b"spin")
    assert not lives(pid)
    assert await worker.ask(b"next") == b"next"


async def test_one_that_was_killed_is_started_again(worker: Worker) -> None:
    pid = int(await worker.ask(b"pid"))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerFailed, match="SIGKILL"):
        await worker.ask(b"hello")
    assert int(await worker.ask(b"pid")) != pid


async def test_where_no_process_can_be_started_that_is_said(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(sys, "executable", "/nothing/here")
        with pytest.raises(WorkerFailed, match="cannot be started"):
            await worker.ask(b"hello")
    assert await worker.ask(b"hello") == b"hello"


@pytest.mark.parametrize("busy", [pytest.param(b"", id="idle"), pytest.param(b"spin", id="busy")])
async def test_a_parent_that_is_killed_leaves_no_worker(busy: bytes) -> None:
    parent = f"""
import asyncio
from agent.runtime.worker import Worker

async def run():
    worker = Worker({SERVED!r}, cpu_seconds=0.2)
    print((await worker.ask(b"pid")).decode(), flush=True)
    await worker.ask({busy!r})
    await asyncio.Event().wait()

asyncio.run(run())
"""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert started.stdout is not None
    pid = int(await started.stdout.readline())
    assert lives(pid)
    started.kill()
    await started.wait()
    await until(lambda: not lives(pid))
