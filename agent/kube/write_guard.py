"""Guard of writes that only a leader may send: each request checks that the replica that began the work still leads."""

from collections.abc import Callable
from contextvars import ContextVar

from agent.kube.errors import Deposed

_leads: ContextVar[Callable[[], bool] | None] = ContextVar("leads", default=None)
"""Tasks inherit it from the task that starts them, so that all the work of a leader is inside."""

_READING = ("GET", "HEAD")


def fence(leads: Callable[[], bool]) -> None:
    """Let this task, and the tasks it starts, write only while `leads` returns True."""
    _leads.set(leads)


def check(method: str) -> None:
    """Raise Deposed for a write request of a task whose leadership has ended."""
    leads = _leads.get()
    if leads is not None and method not in _READING and not leads():
        raise Deposed("not sent: this replica may lead no more")
