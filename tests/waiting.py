"""Waiting for something to become true; the test's own timeout is the limit."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(probe: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once the probe, plain or async, says true."""
    while True:
        answer = probe()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(0.02)
