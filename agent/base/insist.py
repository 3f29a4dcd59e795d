"""Tasks are told to end until they do: one may lose its cancellation among errors of its own, and go on for ever."""

import asyncio
import io
import logging
from typing import Any

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
"""As long as whatever a task does in the end may take."""


def insist(task: "asyncio.Task[Any]", again: float = AGAIN_SECONDS) -> None:
    """Cancel a task, and once more after each `again` seconds until it has ended; where it was then goes to the log."""
    if task.done():
        return
    if task.cancelling():
        stack = io.StringIO()
        task.print_stack(limit=8, file=stack)
        log.warning("%s was cancelled and goes on; again: %s", task.get_name(), stack.getvalue())
    task.cancel()
    asyncio.get_running_loop().call_later(again, insist, task, again)
