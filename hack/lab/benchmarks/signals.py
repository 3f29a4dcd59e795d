"""Runs that clean up after a signal."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

INTERRUPTED = 130
"""Exit status after a signal."""


async def until_signal(program: str, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, and cancel it at the first signal, so that it cleans up. Later signals have no effect."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            print(f"{program}: interrupted, cleaning up", file=sys.stderr)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    return await task
