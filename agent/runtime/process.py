"""The life of a process: run until a signal asks it to stop."""

import asyncio
import functools
import gc
import logging
import signal
from asyncio.sslproto import SSLProtocol
from collections.abc import Coroutine
from typing import Any

from agent.base.eventloop import EventLoop, factory
from agent.base.flags import InvalidSetting
from agent.base.garbage import Freezing
from agent.base.log import change_detail

log = logging.getLogger(__name__)

GRACE_SECONDS = 10.0

TLS_BUFFER = 32 * 1024
"""Read buffer of a TLS connection in bytes: two records. asyncio's own 256 KiB cost 320 KiB of memory per connection
(100 KiB with this), and there are as many connections as requests under way."""


def run_until_signal(main: Coroutine[Any, Any, None], event_loop: EventLoop = "asyncio") -> None:
    """Run `main`; SIGTERM or SIGINT cancel it, so that it can release its resources.

    A `main` that has not ended 10 s after the signal is abandoned. SIGUSR1 sets the log level to DEBUG, SIGUSR2 resets
    it.

    :param event_loop: Python's own, or that of the package uvloop
    :raises InvalidSetting: if that package is not installed
    """
    SSLProtocol.max_size = TLS_BUFFER
    gc.callbacks.append(Freezing())
    try:
        made = factory(event_loop)
    except InvalidSetting:
        main.close()
        raise
    try:
        with asyncio.Runner(loop_factory=made) as runner:
            runner.run(_run(main))
    finally:
        # Else the interpreter looks for garbage in all of it before it ends, which takes longer than all that we end.
        gc.freeze()


async def _run(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(main, name="main")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for number, more in ((signal.SIGUSR1, True), (signal.SIGUSR2, False)):
        loop.add_signal_handler(number, functools.partial(change_detail, more=more))
    waiter = asyncio.create_task(stop.wait(), name="signal")
    await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if not task.done():
        log.info("asked to stop")
        task.cancel()
        await asyncio.wait((task,), timeout=GRACE_SECONDS)
    if task.done() and not task.cancelled():
        task.result()
