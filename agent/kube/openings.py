"""Limit on watches that are being opened at the same time, shared by the sessions of all targets.

Each opening has a TLS handshake, which costs milliseconds of CPU. If many targets come back at the same time, thousands
of watches are opened, and one pass of the event loop would continue the handshakes of all of them.
"""

import asyncio
from collections.abc import Callable

from agent.base.progress import expect

AT_ONCE = 32
LONGEST_SECONDS = 2.0
"""Seconds after which an opening no longer counts: a cluster that does not answer must not delay the others."""
_QUEUE_SECONDS = 300.0
"""Seconds that a watch may wait for others, most of which take milliseconds."""


class Openings:
    """Slots for watches that are being opened."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def begin(self) -> Callable[[], None]:
        """Wait until a watch may be opened. Return the function that ends the opening; more calls of it do nothing."""
        if self._slots.locked():
            expect(_QUEUE_SECONDS)
        await self._slots.acquire()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timer.cancel()
                self._slots.release()

        timer = asyncio.get_running_loop().call_later(LONGEST_SECONDS, end)
        return end
