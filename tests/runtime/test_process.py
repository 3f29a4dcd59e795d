import asyncio
import gc
import logging
import os
import signal
import sys

import pytest

from agent.base.eventloop import EVENT_LOOPS, EventLoop
from agent.base.flags import InvalidSetting
from agent.base.log import configure
from agent.runtime import process
from agent.runtime.process import run_until_signal


@pytest.mark.parametrize("event_loop", EVENT_LOOPS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_cancels_main_which_may_then_release_what_it_holds(number: int, event_loop: EventLoop) -> None:
    released: list[bool] = []

    async def main() -> None:
        assert type(asyncio.get_running_loop()).__module__.partition(".")[0] == event_loop
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            released.append(True)

    run_until_signal(main(), event_loop)
    assert released == [True]


def test_an_event_loop_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        raise AssertionError

    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(InvalidSetting, match=r"--tuning=event-loop=uvloop: .* install the package uvloop"):
        run_until_signal(main(), "uvloop")


def test_an_error_of_main_is_raised() -> None:
    async def main() -> None:
        raise OSError("port taken")

    with pytest.raises(OSError, match="port taken"):
        run_until_signal(main())


def test_main_may_end_by_itself() -> None:
    ended: list[bool] = []

    async def main() -> None:
        ended.append(True)

    run_until_signal(main())
    assert ended == [True]


def test_a_main_that_does_not_end_after_the_signal_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.05)

    async def main() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(3600)

    run_until_signal(main())


def test_what_is_left_in_the_end_is_not_searched_for_garbage() -> None:
    async def main() -> None:
        pass

    gc.unfreeze()
    try:
        run_until_signal(main())
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_signals_change_how_much_is_logged_while_main_runs() -> None:
    levels: list[int] = []
    logger, root = logging.getLogger("agent"), logging.getLogger()
    before = (logger.level, root.level, root.handlers[:])

    async def main() -> None:
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            levels.append(logger.level)

    try:
        configure("WARNING")
        run_until_signal(main())
    finally:
        level, root_level, root.handlers[:] = before
        logger.setLevel(level)
        root.setLevel(root_level)
    assert levels == [logging.DEBUG, logging.WARNING]
