"""An event loop whose clock jumps to the next timer, so that hours pass in a moment."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop for coroutines that wait for timers and for each other only."""

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__()

    def time(self) -> float:
        """Return the seconds that have passed."""
        return self.seconds

    def _run_once(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if not self._ready and timers:  # type: ignore[attr-defined]
            self.seconds = max(self.seconds, timers[0].when())
        super()._run_once()  # type: ignore[misc]

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which no coroutine runs."""
        self.seconds += seconds

    def now(self) -> datetime:
        """Return the time of day."""
        return BEGAN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Return the same as `time`: for code that asks the module `time`."""
        return self.seconds


def run(loop: VirtualLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, cancel all other tasks, and close the loop."""

    async def all_of_it() -> None:
        await work
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    try:
        loop.run_until_complete(all_of_it())
    finally:
        loop.close()
