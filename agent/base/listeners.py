"""Calls several listeners: a failure of one does not affect the others."""

import logging
from collections.abc import Callable, Iterable
from typing import ParamSpec

from agent.base.metrics import LISTENER_FAILURES

P = ParamSpec("P")

log = logging.getLogger(__name__)


def tell(listeners: Iterable[Callable[P, object]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call all listeners; a failing one is logged and counted, and does not affect the caller or other listeners."""
    for listener in tuple(listeners):
        try:
            listener(*args, **kwargs)
        except Exception:
            LISTENER_FAILURES.inc()
            log.exception("unexpected failure of %s", getattr(listener, "__qualname__", listener))
