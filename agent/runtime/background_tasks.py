"""Background computations of controllers: one task per key, whose result a later reconciliation takes."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class BackgroundTasks(Generic[K, T]):
    """Computations in the background. Calls `ready` with a key whose result is available."""

    def __init__(self, ready: Callable[[K], None]) -> None:
        self._ready = ready
        self._tasks: dict[K, tuple[object, asyncio.Task[T]]] = {}
        """By key: the question and the task that answers it."""

    def result_or_start(self, key: K, about: object, compute: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Return the result, once; None while it is being computed. Starts the computation if there is none.

        A computation about something else is cancelled. Raises what the computation has raised.
        """
        found = self._tasks.get(key)
        if found is not None and found[0] == about:
            if not found[1].done():
                return None
            del self._tasks[key]
            if not found[1].cancelled():
                return found[1].result()
        self.drop(key)
        task = asyncio.create_task(compute(), name=f"background task {key}")
        self._tasks[key] = (about, task)
        task.add_done_callback(lambda done: self._done(key, done))
        return None

    def drop(self, key: K) -> None:
        """Cancel the computation of a key and discard its result."""
        found = self._tasks.pop(key, None)
        if found is not None:
            found[1].cancel()

    async def close(self) -> None:
        """Cancel all computations and wait until they have ended."""
        tasks = [task for _, task in self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, key: K, task: asyncio.Task[T]) -> None:
        found = self._tasks.get(key)
        if found is not None and found[1] is task:
            self._ready(key)
