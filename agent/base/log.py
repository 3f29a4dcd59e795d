"""Structured logs: the standard library's loggers, context from variables, text or JSON lines."""

import contextlib
import contextvars
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

_OURS = ("agent", "webhook")
_configured = ["INFO"]
"""Level to go back to."""
_early: list[str] = []
"""Warnings of the time before `configure`."""
_context: contextvars.ContextVar[dict[str, str] | None] = contextvars.ContextVar("log_context", default=None)


@contextlib.contextmanager
def context(**fields: str) -> Iterator[None]:
    """Add fields (controller, cluster, key, ...) to every line logged inside."""
    token = _context.set({**(_context.get() or {}), **fields})
    try:
        yield
    finally:
        _context.reset(token)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {name}={value}" for name, value in (_context.get() or {}).items())
        line = f"{stamp} {record.levelname[0]} {record.name}: {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, str] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields,
            **(_context.get() or {}),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(level: str = "INFO", as_json: bool = False, **fields: str) -> None:
    """Send every log line to standard error. JSON lines carry `fields` (cluster, ...) that are not empty.

    Libraries that log request and response bodies at DEBUG (Secrets among them) stay at WARNING.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json({name: value for name, value in fields.items() if value}) if as_json else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    _configured[0] = level.upper()
    _set_level(_configured[0])
    for message in _early:
        logging.getLogger(__name__).warning("%s", message)
    _early.clear()


def warn_later(message: str) -> None:
    """Log a warning once `configure` has set the format. A program without a log never shows it."""
    _early.append(message)


def change_detail(*, more: bool) -> None:
    """While the process runs: log at DEBUG, or again at the level that was configured."""
    level = "DEBUG" if more else _configured[0]
    _set_level(level)
    logging.getLogger(__name__).warning("log level is %s from now on", level)


def _set_level(level: str) -> None:
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
