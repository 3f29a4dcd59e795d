"""Two channels as one: what comes in on either goes out on the other."""

import asyncio
import contextlib

from agent.kube.channel import Channel

_HALF_CLOSED_SECONDS = 10.0


async def splice(one: Channel, other: Channel, *, idle: float) -> None:
    """Join two channels until both have ended, or nothing has come for `idle` seconds; both are closed then.

    Where one side ends the other is told so, and may still send what is on its way for some seconds.
    """
    one.join(other)
    other.join(one)
    try:
        if not await _first_end(one, other, idle):
            return
        for ended, live in ((one, other), (other, one)):
            if ended.ended:
                live.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HALF_CLOSED_SECONDS):
                await one.gone()
                await other.gone()
    finally:
        one.close()
        other.close()


async def _first_end(one: Channel, other: Channel, idle: float) -> bool:
    """Whether one has ended, rather than both having been silent for too long."""
    loop = asyncio.get_running_loop()
    ends = [asyncio.ensure_future(channel.gone()) for channel in (one, other)]
    try:
        while (left := max(one.active, other.active) + idle - loop.time()) > 0:
            done, _ = await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return True
        return False
    finally:
        for end in ends:
            end.cancel()
