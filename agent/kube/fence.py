"""The fence around what only a leader may write: each request asks whether whoever began the work still leads."""

from collections.abc import Callable
from contextvars import ContextVar

from agent.kube.errors import Deposed

_leads: ContextVar[Callable[[], bool] | None] = ContextVar("leads", default=None)
"""Tasks inherit it from the task that starts them, so that all the work of a leader is inside."""

_READING = ("GET", "HEAD")


def fence(leads: Callable[[], bool]) -> None:
    """Have this task, and those that it will start, write only while `leads` says so."""
    _leads.set(leads)


def check(method: str) -> None:
    """Raises Deposed for a request that may change something, by a task that leads no more."""
    leads = _leads.get()
    if leads is not None and method not in _READING and not leads():
        raise Deposed("not sent: this replica may lead no more")
