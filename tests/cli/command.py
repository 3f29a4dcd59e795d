"""The command `flotilla` for tests. It runs in the test's process, since imports are most of a new process's
cost."""

import asyncio
import contextlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.api.kinds import NODES
from agent.cli import INTERRUPTED, main
from agent.kube.errors import Forbidden
from hack.lab.sandbox.objects import connect
from tests.waiting import until

Told = tuple[int, str, str]
"""Exit status, output and errors."""

_ONE_AT_A_TIME = threading.Lock()


async def flotilla(*words: str, **environment: str) -> Told:
    """Run the command in a thread. Commands that handle signals need `call` in the main thread."""
    return await asyncio.to_thread(call, *words, **environment)


def call(*words: str, **environment: str) -> Told:
    """Run the command in the caller's thread, which must not have an event loop."""
    output, errors = io.StringIO(), io.StringIO()
    # sys.argv, the streams and the environment are shared by all threads.
    with _ONE_AT_A_TIME, pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["flotilla", *words])
        # Otherwise the usage text names the package that `python -m` started.
        patch.setattr(sys.modules["__main__"], "__package__", None)
        # Typer replaces it.
        patch.setattr(sys, "excepthook", sys.excepthook)
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(errors))
        stack.enter_context(_warnings_told(errors))
        stack.enter_context(_signals_kept())
        with pytest.raises(SystemExit) as ended:
            main()
    if ended.value.code == INTERRUPTED:
        raise KeyboardInterrupt
    assert isinstance(ended.value.code, int)
    return ended.value.code, output.getvalue(), errors.getvalue()


async def typed(*words: str, **environment: str) -> Told:
    """Run any program as from a shell."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env={**os.environ, **environment})
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


async def allowed(kubeconfig: Path) -> None:
    """Wait until the user may read nodes; an API server applies new rights with a delay."""
    client = connect(kubeconfig)

    async def may() -> bool:
        with contextlib.suppress(Forbidden):
            return bool(await client.list(NODES))
        return False

    async with client.session:
        await until(may)


@contextlib.contextmanager
def _warnings_told(errors: io.StringIO) -> Iterator[None]:
    """Add this thread's warnings to the errors, as a process without log handlers does."""
    caller = threading.get_ident()
    handler = logging.StreamHandler(errors)
    handler.setLevel(logging.WARNING)
    handler.addFilter(lambda record: record.thread == caller)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the signal handlers at the end: an event loop resets handled signals to their default."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)
