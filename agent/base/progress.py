"""Signs that a piece of work gets on: whoever hears from the network says so, whoever watches over it sees them.

Work that waits for nothing but requests gets on with each answer, and each request says how long it may wait for one.
Work that rightly waits for something else says how long (`expect`). All in seconds of the event loop's clock.
"""

import asyncio
from contextvars import ContextVar

SLACK_SECONDS = 60.0
"""What work may take beyond what it said."""

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
    """Have what this task does from now on be part of a piece of work; returns what it was part of."""
    before = _running.get()
    _running.set(progress)
    return before


def expect(seconds: float) -> None:
    """The work that is running may hear nothing for so long."""
    progress = _running.get()
    if progress is not None:
        progress.due = max(progress.due, asyncio.get_running_loop().time() + seconds + SLACK_SECONDS)


def progressed() -> None:
    """The work that is running gets on."""
    progress = _running.get()
    if progress is not None:
        progress.moved = now = asyncio.get_running_loop().time()
        progress.due = max(progress.due, now + SLACK_SECONDS)
