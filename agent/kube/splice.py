"""Two channels as one: what comes in on either goes out on the other."""

import asyncio
from collections.abc import Iterable

from agent.kube.channel import Channel

_HALF_CLOSED_SECONDS = 10.0
_LOOK_SECONDS = 1.0


async def splice(one: Channel, other: Channel, *, idle: float) -> None:
    """Join two channels until both have ended, or nothing has come for `idle` seconds; both are closed then.

    Where one side ends the other is told so. It may take as long as it likes for what was sent to it, and may still
    send what is on its way for some seconds after that.
    """
    one.join(other)
    other.join(one)
    ends = [asyncio.ensure_future(channel.gone()) for channel in (one, other)]
    try:
        if not await _first_end(ends, one, other, idle):
            return
        for ended, live in ((one, other), (other, one)):
            if ended.ended:
                live.finish()
        await _last_end(ends, one, other, idle)
    finally:
        for end in ends:
            end.cancel()
        one.close()
        other.close()


async def _first_end(ends: Iterable[asyncio.Future[None]], one: Channel, other: Channel, idle: float) -> bool:
    """Whether one has ended, rather than both having been silent for too long."""
    while (left := _left(one, other, idle)) > 0:
        done, _ = await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return True
    return False


async def _last_end(ends: Iterable[asyncio.Future[None]], one: Channel, other: Channel, idle: float) -> None:
    """Wait until both have ended, for some seconds that begin when both have taken everything.

    What waits in the kernel counts, too: it is lost if its reader says a word after the connection was closed.
    """
    patience = _HALF_CLOSED_SECONDS
    while patience > 0 and _left(one, other, idle) > 0:
        _, pending = await asyncio.wait(ends, timeout=_LOOK_SECONDS)
        if not pending:
            return
        patience = _HALF_CLOSED_SECONDS if one.unsent or other.unsent else patience - _LOOK_SECONDS


def _left(one: Channel, other: Channel, idle: float) -> float:
    """Seconds for which both may still be silent."""
    return max(one.active, other.active) + idle - asyncio.get_running_loop().time()
