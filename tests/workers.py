"""How tests are dealt out to several workers, and how workers end before all tests have run."""

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
"""Of the tests on the usual fleet, which are as dear as all others on fleets together; the rest is a part, too. Leaders
are for `--all`, and take twenty minutes."""
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
"""What is dealt out first, because nobody should wait for it at the end."""
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
"""Files whose tests need a source and a target of their own, which the others of that folder do not."""
_MIDDLE = "test_m"
"""First file of the second half: each half takes as long, and starts two clusters."""


class _ByClusters(LoadScopeScheduling):
    """Tests that share clusters stay with one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """What stays with one worker: a fleet or a part of its tests, a file, or a folder or a part of it."""
    file = nodeid.partition("::")[0]
    fleet = fleet_of(nodeid)
    if fleet == USUAL:
        return f"{USUAL}: {next((part for part, names in _PARTS.items() if nodeid.startswith(names)), 'the rest')}"
    if file in _PAIRED:
        return f"tests/controllers: two clusters, {'first' if file.rpartition('/')[2] < _MIDDLE else 'second'} half"
    return fleet or (file if file in _SEPARATE else "/".join(file.split("/")[:2]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first."""
    places = {scope: place for place, scope in enumerate(_DEAREST)}
    items.sort(key=lambda item: places.get(scope_of(item.nodeid), len(places)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """How tests are dealt out where several workers run them."""
    return _ByClusters(config, log)


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


@pytest.hookimpl(tryfirst=True)
def pytest_internalerror() -> None:
    """Nobody reads what is printed any more, as behind `head`, or the controller has another fault."""
    _end_workers()


def pytest_keyboard_interrupt() -> None:
    """Somebody ends the run."""
    _end_workers()


def _end_workers() -> None:
    """Workers take their clusters down; the controller would kill them after ten seconds."""
    for worker in _workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.gateway._io.popen.pid, signal.SIGINT)
    for worker in _workers:
        # What went wrong in a worker is shown by its report.
        with contextlib.suppress(worker.channel.RemoteError, worker.channel.TimeoutError):
            worker.channel.waitclose(_TEARDOWN_SECONDS)
