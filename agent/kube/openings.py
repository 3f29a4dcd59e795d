"""Limit on watches that are being opened at the same time, for all targets of this process.

Each opening has a TLS handshake, which costs milliseconds of CPU. If many targets come back at the same time, thousands
of watches are opened, and one pass of the event loop would continue the handshakes of all of them.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from agent.base.progress import expect

AT_ONCE = 32
LONGEST_SECONDS = 2.0
"""Seconds after which an opening no longer counts: a cluster that does not answer must not delay the others."""
_QUEUE_SECONDS = 300.0
"""Seconds that a watch may wait for others, most of which take milliseconds."""

_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


async def begin_opening() -> Callable[[], None]:
    """Wait until a watch may be opened. Return the function that ends the opening; more calls of it do nothing."""
    loop = asyncio.get_running_loop()
    slots = _of_loops.setdefault(loop, asyncio.Semaphore(AT_ONCE))
    if slots.locked():
        expect(_QUEUE_SECONDS)
    await slots.acquire()
    is_over = False

    def end() -> None:
        nonlocal is_over
        if not is_over:
            is_over = True
            timer.cancel()
            slots.release()

    timer = loop.call_later(LONGEST_SECONDS, end)
    return end
