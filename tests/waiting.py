"""Waiting for what must become true, on the test's own event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(probe: Callable[[], T | Awaitable[T | None] | None], seconds: float = 20.0) -> T:
    """What `probe` gives as soon as it is true; TimeoutError names the probe if that takes too long."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                value = probe()
                if isinstance(value, Awaitable):
                    value = await value
                if value:
                    return value
                await asyncio.sleep(0.02)
    except TimeoutError as error:
        raise AssertionError(f"not true within {seconds:g} s: {getattr(probe, '__qualname__', probe)}") from error
