"""Distribution of tests to several workers, and the end of workers before all tests have run."""

import contextlib
import os
import signal
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.e2e.fleets import USUAL, fleet_of

_TEARDOWN_SECONDS = 90.0
_workers: list[WorkerController] = []


_PARTS = {
    "targets": ("tests/e2e/test_1", "tests/e2e/test_2", "tests/e2e/test_60"),
    "leaders": ("tests/e2e/test_66_killed_leaders.py::test_a_hundred_",),
}
"""Parts of the tests on the usual fleet, which cost as much as all other fleets together; the remaining tests
are a part, too. Leaders are for `--all`, and take twenty minutes."""
_DEAREST = (
    *(f"{USUAL}: {part}" for part in _PARTS),
    f"{USUAL}: the rest",
    "tests/controllers: two clusters, first half",
    "tests/controllers: two clusters, second half",
    "reserving",
    "same name",
    "tests/chart/test_on_a_real_node.py",
    "tests/chart/test_upgrade.py",
    "tests/chart/test_promises.py",
    "tests/gateway",
    "real",
    "placing",
    "tests/soak",
    "tests/controllers",
    "tests/scheduler",
    "tests/extender",
    "tests/cli",
    "tests/docs",
    "tests/sandbox",
)
"""Scopes that are distributed first, so that none of them runs alone at the end."""
_SEPARATE = (
    "tests/chart/test_on_a_real_node.py",
    "tests/chart/test_promises.py",
    "tests/chart/test_upgrade.py",
    "tests/sandbox/test_sandbox.py",
)
"""Files that share no cluster with others of their folder."""
_PAIRED = frozenset(
    str(file.relative_to(Path(__file__).parents[1]))
    for file in Path(__file__).with_name("controllers").rglob("test_*.py")
    if "pair: Pair" in file.read_text()
)
"""Files whose tests need their own source and target, unlike the others of that folder."""
_MIDDLE = "test_m"
"""First file of the second half; both halves take equally long, and each starts two clusters."""


class _ByClusters(LoadScopeScheduling):
    """Scheduler that keeps tests that share clusters on one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Return the scope that stays with one worker: a fleet or a part of its tests, a file, or a folder or a
    part of it."""
    file = nodeid.partition("::")[0]
    fleet = fleet_of(nodeid)
    if fleet == USUAL:
        return f"{USUAL}: {next((part for part, names in _PARTS.items() if nodeid.startswith(names)), 'the rest')}"
    if file in _PAIRED:
        return f"tests/controllers: two clusters, {'first' if file.rpartition('/')[2] < _MIDDLE else 'second'} half"
    return fleet or (file if file in _SEPARATE else "/".join(file.split("/")[:2]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest scopes first."""
    places = {scope: place for place, scope in enumerate(_DEAREST)}
    items.sort(key=lambda item: places.get(scope_of(item.nodeid), len(places)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Return the scheduler for runs with several workers."""
    return _ByClusters(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Handle SIGTERM like Ctrl-C, and restore SIGINT.

    A terminal's Ctrl-C only reaches the controller of the workers; a CI sends SIGTERM on a timeout. Started
    processes must not inherit the ignored SIGINT of a background job.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    if hasattr(config, "workerinput"):
        os.setpgrp()


def pytest_testnodeready(node: WorkerController) -> None:
    """Remember a worker that has to be ended."""
    _workers.append(node)


@pytest.hookimpl(tryfirst=True)
def pytest_internalerror() -> None:
    """End the workers if the output is closed, as behind `head`, or the controller fails otherwise."""
    _end_workers()


def pytest_keyboard_interrupt() -> None:
    """End the workers when the user interrupts the run."""
    _end_workers()


def _end_workers() -> None:
    """Let workers take their clusters down; the controller would kill them after ten seconds."""
    for worker in _workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.gateway._io.popen.pid, signal.SIGINT)
    for worker in _workers:
        # The worker's own report shows its errors.
        with contextlib.suppress(worker.channel.RemoteError, worker.channel.TimeoutError):
            worker.channel.waitclose(_TEARDOWN_SECONDS)
