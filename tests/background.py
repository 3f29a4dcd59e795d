"""What runs beside a test: doubles of other programs and the like."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

PAUSE_SECONDS = 0.5
"""Of doubles that look at API servers again and again: each look is some dozen requests."""


@contextlib.asynccontextmanager
async def background(work: Any) -> AsyncIterator[None]:
    """Something that runs beside a test and must not end before it."""
    task = asyncio.ensure_future(work)
    try:
        yield
        if task.done():
            task.result()
            raise AssertionError("what runs beside the test has ended")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
