"""How tests are dealt out to several workers, and how workers end when somebody interrupts them."""

import contextlib
import os
import signal

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_TEARDOWN_SECONDS = 90.0
_workers: list[WorkerController] = []


class _ByFolder(LoadScopeScheduling):
    """Tests of a folder stay with one worker, because they share clusters."""

    def _split_scope(self, nodeid: str) -> str:
        return "/".join(nodeid.partition("::")[0].split("/")[:2])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are dealt out where several workers run them."""
    return _ByFolder(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """A terminal's Ctrl-C reaches the controller of the workers only; a CI that has waited long enough sends SIGTERM.

    What tests start and interrupt must not inherit that a job in the background ignores SIGINT.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    if hasattr(config, "workerinput"):
        os.setpgrp()


def pytest_testnodeready(node: WorkerController) -> None:
    """Remember who has to end."""
    _workers.append(node)


def pytest_keyboard_interrupt() -> None:
    """Workers take their clusters down; the controller would kill them after ten seconds."""
    for worker in _workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.gateway._io.popen.pid, signal.SIGINT)
    for worker in _workers:
        # What went wrong in a worker is shown by its report.
        with contextlib.suppress(worker.channel.RemoteError, worker.channel.TimeoutError):
            worker.channel.waitclose(_TEARDOWN_SECONDS)
