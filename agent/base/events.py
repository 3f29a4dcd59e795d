"""Waiting for an event, but no longer than some seconds."""

import asyncio


async def set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Whether it is set before the seconds are over; without any, it is waited for."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
