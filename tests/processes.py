"""Our processes, as the chart starts them."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator


@contextlib.asynccontextmanager
async def started(module: str, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A module as a process of its own, whose standard error can be read; it does not outlive the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, *flags, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
