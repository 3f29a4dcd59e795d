"""Log lines caused by remote peers, at a bounded rate."""

import logging
import time

SECONDS = 10.0
"""Shortest pause between two lines."""


class SparseLog:
    """Logs at most one warning per `seconds`; the next line counts the omitted ones."""

    def __init__(self, log: logging.Logger, seconds: float = SECONDS) -> None:
        self._log = log
        self._seconds = seconds
        self._next = 0.0
        self._left_out = 0

    def warning(self, text: str, *args: object) -> None:
        """Log a warning, or count it if the last one was too recent."""
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this since the last line)" if self._left_out else ""
        self._next, self._left_out = now + self._seconds, 0
        self._log.warning(text + "%s", *args, more)


class SparseFilter(logging.Filter):
    """Lets one record of each exception type pass per `seconds`: for libraries that log what a peer sends."""

    def __init__(self, seconds: float = SECONDS) -> None:
        super().__init__()
        self._seconds = seconds
        self._next: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by `logging`."""
        kind = record.exc_info[0] if record.exc_info else None
        now = time.monotonic()
        if now < self._next.get(kind, 0.0):
            return False
        self._next[kind] = now + self._seconds
        return True
