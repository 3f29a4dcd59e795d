"""Stack of a waiting task, for the log: asyncio itself shows only the outermost of its coroutines."""

import asyncio
import gc
import traceback
from types import AsyncGeneratorType, FrameType
from typing import Any

_MOST = 30


def stack_of(task: "asyncio.Task[Any]") -> str:
    """Return the lines of each coroutine from the task to the object that it awaits."""
    frames: list[tuple[FrameType, int]] = []
    waiting: Any = task.get_coro()
    while waiting is not None and len(frames) < _MOST:
        frame = _frame(waiting)
        if frame is None:
            break
        frames.append((frame, frame.f_lineno))
        waiting = _awaited(waiting)
    lines = traceback.StackSummary.extract(iter(frames)).format()
    return "".join(lines) + (f"  for {waiting!r}\n" if waiting is not None else "")


def _frame(waiting: Any) -> FrameType | None:
    for name in ("cr_frame", "gi_frame", "ag_frame"):
        frame = getattr(waiting, name, None)
        if isinstance(frame, FrameType):
            return frame
    return None


def _awaited(waiting: Any) -> Any:
    for name in ("cr_await", "gi_yieldfrom", "ag_await"):
        found = getattr(waiting, name, None)
        if found is not None:
            return _named(found) if _frame(found) is None else found
    return None


def _named(step: Any) -> Any:
    """The generator or future behind a step of it, which itself does not name it."""
    return next(
        (each for each in gc.get_referents(step) if isinstance(each, (AsyncGeneratorType, asyncio.Future))), step
    )
