"""The command `flotilla` as tests type it: in this process, for most of what a process of its own costs is imports."""

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
    """What the command says to these words; a command that handles signals cannot be called like this."""
    return await asyncio.to_thread(call, *words, **environment)


def call(*words: str, **environment: str) -> Told:
    """The same in the thread of the caller, which has no event loop; in the main thread any command can be called."""
    output, errors = io.StringIO(), io.StringIO()
    # What it writes to and reads from belongs to all threads.
    with _ONE_AT_A_TIME, pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["flotilla", *words])
        # The package that was started by `python -m` would be the command's name in what it says about its usage.
        patch.setattr(sys.modules["__main__"], "__package__", None)
        # Typer sets it.
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
    """What any program says that is run as from a shell."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env={**os.environ, **environment})
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


async def allowed(kubeconfig: Path) -> None:
    """Wait until somebody may read nodes: an API server learns a moment late of rights that are given."""
    client = connect(kubeconfig)

    async def may() -> bool:
        with contextlib.suppress(Forbidden):
            return bool(await client.list(NODES))
        return False

    async with client.session:
        await until(may)


@contextlib.contextmanager
def _warnings_told(errors: io.StringIO) -> Iterator[None]:
    """Have what this thread logs among the errors: a process without log handlers writes it there."""
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
    """What signals do is as before: an event loop sets those that it handled to their default."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)
