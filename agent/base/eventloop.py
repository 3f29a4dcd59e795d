"""Event loops by name.

uvloop refuses a socket whose number a broken connection still holds (RuntimeError, its issue 653): to a session that is
a network error like any other.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Literal, get_args

from agent.base.flags import InvalidSetting

EventLoop = Literal["asyncio", "uvloop"]
EVENT_LOOPS: tuple[EventLoop, ...] = get_args(EventLoop)


def factory(name: EventLoop) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the event loop; None for Python's own.

    :raises InvalidSetting: if the package is not installed
    """
    if name == "asyncio":
        return None
    try:
        made: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ImportError as error:
        raise InvalidSetting(
            f"--tuning=event-loop=uvloop: {error}: install the package uvloop (flotilla[speed]), or leave it out"
        ) from error
    return made
