"""Urgent requests: they do not wait for a free slot of their session, so other requests cannot delay them."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_urgent: ContextVar[bool] = ContextVar("urgent", default=False)


@contextlib.contextmanager
def urgent() -> Iterator[None]:
    """Send the requests in this context at once. The caller limits their number."""
    token = _urgent.set(True)
    try:
        yield
    finally:
        _urgent.reset(token)


def is_urgent() -> bool:
    """Return True inside `urgent`."""
    return _urgent.get()
