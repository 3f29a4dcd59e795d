"""Several things at once that stand or fall together."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def together(*works: Coroutine[Any, Any, object]) -> None:
    """Run all coroutines until they have ended; if one fails, cancel the others.

    :raises ExceptionGroup: of their errors
    """
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)


async def side_by_side(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all to their end and return their results; raises the error of the first that failed, if any did."""
    found = await asyncio.gather(*works, return_exceptions=True)
    if failed := next((each for each in found if isinstance(each, BaseException)), None):
        raise failed
    return [each for each in found if not isinstance(each, BaseException)]
