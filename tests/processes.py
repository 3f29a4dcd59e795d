"""Flotilla's processes, as the chart starts them, and processes that hang."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.waiting import until


@contextlib.asynccontextmanager
async def started(module: str, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a module as a separate process with readable standard error until the end of the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, *flags, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def frozen(*pids: int) -> AsyncIterator[None]:
    """Freeze processes during the block, including calls that a thread has begun; some may have ended then."""
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        await until(lambda: all(map(_is_stopped, pids)), what=f"{pids} are stopped")
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    threads = (file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat"))
    return {thread.rpartition(")")[2].split()[0] for thread in threads} == {"T"}
