"""Progress of work: network code reports it, and the watchdog checks it.

Work that waits only for requests progresses with each answer, and each request declares its maximum wait. Work that
waits for something else declares how long (`expect`). All times are seconds of the event loop's clock.
"""

import asyncio
from contextvars import ContextVar

SLACK_SECONDS = 60.0
"""Seconds that work may take beyond its declared wait."""

_running: "ContextVar[Progress | None]" = ContextVar("progress", default=None)
"""Of the work that this task belongs to; tasks that it starts belong to it, too."""


class Progress:
    """When one piece of work, which has just begun, last got on."""

    __slots__ = ("began", "due", "moved")

    def __init__(self) -> None:
        self.began = self.moved = asyncio.get_running_loop().time()
        self.due = self.began + SLACK_SECONDS
        """When it stands still, unless something comes before."""


def begin(progress: Progress | None) -> Progress | None:
    """Make later actions of this task part of a piece of work; returns the previous one."""
    before = _running.get()
    _running.set(progress)
    return before


def expect(seconds: float) -> None:
    """Declare that the running work may receive no data for so many seconds."""
    progress = _running.get()
    if progress is not None:
        progress.due = max(progress.due, asyncio.get_running_loop().time() + seconds + SLACK_SECONDS)


def progressed() -> None:
    """Record progress of the running work."""
    progress = _running.get()
    if progress is not None:
        progress.moved = now = asyncio.get_running_loop().time()
        progress.due = max(progress.due, now + SLACK_SECONDS)
