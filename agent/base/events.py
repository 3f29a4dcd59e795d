"""Waiting for an event, but no longer than some seconds."""

import asyncio


async def set_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until the event is set or `seconds` have passed (None: no limit); return whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
