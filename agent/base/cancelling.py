"""Reliable cancellation of tasks: none is lost among other errors, and none reaches a task that was not cancelled.

An await may raise CancelledError in a task that was not cancelled, because a shared future was. It may also raise
another error in a cancelled task: aiohttp's own timeout, at the same moment, suppresses the cancellation.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from agent.base.stacks import stack_of

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
"""Seconds between repeated cancellations: a task may need that long for its cleanup."""


class Interrupted(Exception):
    """The awaited object was cancelled, but not the running task."""


def cancel_until_done(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, and again every 10 s until it has ended; each repetition logs its stack."""
    if not task.done():
        task.cancel()
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, _look, task)


def cancellations() -> int:
    """Return how often the running task was cancelled, without cancellations that it has handled."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


@contextlib.contextmanager
def cancelled_only_if_told() -> Iterator[None]:
    """Context for awaits of a library: CancelledError leaves it if, and only if, the running task was cancelled.

    Raises Interrupted for any other CancelledError.
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
