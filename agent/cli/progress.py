"""Progress of downloads and builds: bars on a terminal, else a line every few seconds."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

Result = TypeVar("Result")

QUIET_SECONDS = 2.0
"""Steps shorter than this are not worth a line."""
LINE_SECONDS = 3.0


class Task(Protocol):
    """One step under way."""

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far it is; without a total only the note counts."""
        ...

    def finish(self, note: str = "done") -> None:
        """Say how it ended."""
        ...


class Progress(Protocol):
    """Display of steps; a context manager."""

    def task(self, title: str) -> Task:
        """Begin a step."""
        ...

    def tick(self) -> None:
        """Time has passed: say again what is under way, where nothing moves by itself."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lines:
    """Progress as plain lines, for logs."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self._open: list[_LineTask] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.clear()

    def task(self, title: str) -> Task:
        """Begin a step."""
        task = _LineTask(self, title)
        self._open.append(task)
        return task

    def tick(self) -> None:
        """Repeat what is under way, if it is time."""
        for task in self._open:
            task.repeat()

    def end(self, task: "_LineTask") -> None:
        """Forget a step."""
        if task in self._open:
            self._open.remove(task)

    def write(self, text: str) -> None:
        """Print one line."""
        self.stream.write(text + "\n")
        self.stream.flush()


class _LineTask:
    def __init__(self, lines: Lines, title: str) -> None:
        self._lines = lines
        self._title = title
        self._began = lines.clock()
        self._last = self._began - LINE_SECONDS + QUIET_SECONDS
        self._state = ""

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        share = f" {100 * min(done / total, 1):.0f} %" if total else ""
        self._state = f"{share}{' ' + note if note else ''}"
        self.repeat()

    def repeat(self) -> None:
        now = self._lines.clock()
        if now - self._last >= LINE_SECONDS:
            self._last = now
            self._lines.write(f"{self._title}:{self._state} ({now - self._began:.0f} s)")

    def finish(self, note: str = "done") -> None:
        self._lines.end(self)
        seconds = self._lines.clock() - self._began
        if seconds >= QUIET_SECONDS:
            self._lines.write(f"{self._title}: {note} ({seconds:.1f} s)")


class Silent:
    """No progress, for tests."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def task(self, title: str) -> Task:
        """Begin a step without a display."""
        return self

    def tick(self) -> None:
        """Say nothing."""

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say nothing."""

    def finish(self, note: str = "done") -> None:
        """Say nothing."""


class Bars:
    """Progress as bars on a terminal (rich)."""

    def __init__(self) -> None:
        self._progress = self._new()

    def _new(self) -> "RichProgress":
        # Part of the extra `cli`, so that the agent's image need not have it.
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        return progress.Progress(
            progress.SpinnerColumn(finished_text="[green]✓"),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24 if console.width >= 100 else 4),
            progress.TextColumn("{task.fields[note]}"),
            progress.TimeElapsedColumn(),
            console=console,
        )

    def __enter__(self) -> Self:
        self._progress = self._new()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def task(self, title: str) -> Task:
        """Begin a step."""
        return _BarTask(self._progress, self._progress.add_task(title, total=None, note=""))

    def tick(self) -> None:
        """Bars move by themselves."""


class _BarTask:
    def __init__(self, progress: "RichProgress", identity: "TaskID") -> None:
        self._progress = progress
        self._identity = identity

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        self._progress.update(self._identity, completed=done, total=total, note=note)

    def finish(self, note: str = "done") -> None:
        self._progress.update(self._identity, completed=1, total=1, note=note)


async def ticking(progress: Progress, work: Coroutine[Any, Any, Result]) -> Result:
    """Await some work and keep the display alive meanwhile; when cancelled, cancel it and wait for its end."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=1.0)
            progress.tick()
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def together(waits: Sequence[Awaitable[None]]) -> None:
    """Await all; the first error ends the others and is raised unchanged."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def default() -> Progress:
    """Return bars if standard error is a terminal that can move its cursor, and rich is installed, else lines."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb"):
        try:
            return Bars()
        except ImportError:
            pass
    return Lines(sys.stderr)
