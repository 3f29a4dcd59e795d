"""Cancellation of tasks, made sure of: none is lost among other errors, and none is taken that was meant for others.

An await may raise CancelledError in a task that nobody has cancelled (a future that others share was cancelled), and
another error in one that was cancelled (aiohttp's own timeout, at the same moment, takes a cancellation back).
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from agent.base.stacks import stack_of

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
"""As long as whatever a task does in the end may take."""


class Interrupted(Exception):
    """What the running task was waiting for was cancelled, and the task itself was not."""


def cancel_until_done(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, and once more after each 10 s until it has ended; where it was then goes to the log."""
    if not task.done():
        task.cancel()
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, _look, task)


def cancellations() -> int:
    """How many times the running task has been told to end, those apart that it has answered."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


@contextlib.contextmanager
def cancelled_only_if_told() -> Iterator[None]:
    """Around awaits of a library: CancelledError leaves the block if, and only if, the running task was told to end.

    Raises Interrupted for a CancelledError that was meant for somebody else.
    """
    before = cancellations()
    try:
        yield
    except asyncio.CancelledError as error:
        if cancellations() > before:
            raise
        raise Interrupted("what was waited for was cancelled") from error
    except Exception as error:
        if cancellations() > before:
            raise asyncio.CancelledError from error
        raise


def _look(task: "asyncio.Task[Any]") -> None:
    if not task.done():
        log.warning("%s was cancelled and goes on; again:\n%s", task.get_name(), stack_of(task))
        cancel_until_done(task)
