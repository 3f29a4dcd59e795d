"""Splices two channels: input of each is output of the other."""

import asyncio
from collections.abc import Iterable

from agent.kube.channel import Channel

_HALF_CLOSED_SECONDS = 10.0
_LOOK_SECONDS = 1.0


async def splice(one: Channel, other: Channel, *, idle: float) -> None:
    """Join two channels until both have ended, or no data has come for `idle` seconds; then close both.

    When a side ends, the other one is notified. It may take any time to receive pending data, and some seconds after
    that to send its own.
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
    """Return True if a channel has ended, False if both were silent for too long."""
    while (left := _left(one, other, idle)) > 0:
        done, _ = await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if done:
            return True
    return False


async def _last_end(ends: Iterable[asyncio.Future[None]], one: Channel, other: Channel, idle: float) -> None:
    """Wait until both have ended, for some seconds after both have taken all data.

    Data in the kernel's buffers counts, too: it is lost if its reader sends anything after the connection was closed.
    """
    patience = _HALF_CLOSED_SECONDS
    while patience > 0 and _left(one, other, idle) > 0:
        _, pending = await asyncio.wait(ends, timeout=_LOOK_SECONDS)
        if not pending:
            return
        patience = _HALF_CLOSED_SECONDS if one.unsent or other.unsent else patience - _LOOK_SECONDS


def _left(one: Channel, other: Channel, idle: float) -> float:
    """Return the seconds for which both may remain silent."""
    return max(one.active, other.active) + idle - asyncio.get_running_loop().time()
