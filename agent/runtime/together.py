"""Several things at once that stand or fall together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*works: Coroutine[Any, Any, object]) -> None:
    """Run all of them until they have ended; if one fails, the others are cancelled.

    :raises ExceptionGroup: of what they raise
    """
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)
