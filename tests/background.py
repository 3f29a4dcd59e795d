"""Tasks that run next to a test, such as doubles of other programs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

PAUSE_SECONDS = 0.5
"""Poll interval in seconds of doubles; each poll is about a dozen requests."""


@contextlib.asynccontextmanager
async def background(work: Any) -> AsyncIterator[None]:
    """Run a task during the block. Fails if the task ends before it."""
    task = asyncio.ensure_future(work)
    try:
        yield
        if task.done():
            task.result()
            raise AssertionError("what runs beside the test has ended")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
