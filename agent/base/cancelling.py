"""Tasks are cancelled until they end: one may lose its cancellation among errors of its own, and go on for ever."""

import asyncio
import io
import logging
from typing import Any

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
"""As long as whatever a task does in the end may take."""


def cancel_until_done(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, and once more after each 10 s until it has ended; where it was then goes to the log."""
    if not task.done():
        task.cancel()
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, _look, task)


def _look(task: "asyncio.Task[Any]") -> None:
    if not task.done():
        stack = io.StringIO()
        task.print_stack(limit=8, file=stack)
        log.warning("%s was cancelled and goes on; again: %s", task.get_name(), stack.getvalue())
        cancel_until_done(task)
