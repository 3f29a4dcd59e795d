"""What is going on, for whoever waits: bars where somebody watches a terminal, else a line every few seconds."""

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

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
    """Where steps are shown; a context manager."""

    def task(self, title: str) -> Task:
        """Begin a step."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lines:
    """Progress as plain lines, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def task(self, title: str) -> Task:
        """Begin a step."""
        return _LineTask(self, title)

    def write(self, text: str) -> None:
        """Print one line."""
        with self.lock:
            self.stream.write(text + "\n")
            self.stream.flush()


class _LineTask:
    def __init__(self, lines: Lines, title: str) -> None:
        self._lines = lines
        self._title = title
        self._began = time.monotonic()
        self._last = self._began - LINE_SECONDS + QUIET_SECONDS

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        now = time.monotonic()
        if now - self._last < LINE_SECONDS:
            return
        self._last = now
        share = f" {100 * min(done / total, 1):.0f} %" if total else ""
        self._lines.write(f"{self._title}:{share}{' ' + note if note else ''}")

    def finish(self, note: str = "done") -> None:
        seconds = time.monotonic() - self._began
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
        """Begin a step that nobody sees."""
        return self

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

        return progress.Progress(
            progress.SpinnerColumn(finished_text="[green]✓"),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[note]}"),
            progress.TimeElapsedColumn(),
            console=Console(stderr=True),
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


class _BarTask:
    def __init__(self, progress: "RichProgress", identity: "TaskID") -> None:
        self._progress = progress
        self._identity = identity

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        self._progress.update(self._identity, completed=done, total=total, note=note)

    def finish(self, note: str = "done") -> None:
        self._progress.update(self._identity, completed=1, total=1, note=note)


def default() -> Progress:
    """Bars if standard error is a terminal and rich is installed, else lines."""
    if sys.stderr.isatty():
        try:
            return Bars()
        except ImportError:
            pass
    return Lines(sys.stderr)
