"""Progress of a run: the number of ended tests, the remaining time, and each failure as soon as it happens."""

import json
import sys
import time
from pathlib import Path

import pytest
from xdist.workermanage import WorkerController

from hack.lab.sandbox import cache
from tests.tiers import EVERYTHING, tier_of

_TERMINAL_SECONDS, _LOG_SECONDS = 1.0, 15.0
"""Interval between two lines of progress on a terminal, which rewrites one line, and in a log."""
_POINTS = 50
_SHOWN_LINES = 40
_PASSED = {"passed", "skipped"}


def seconds_left(done: int, total: int, elapsed: float, before: list[float]) -> float | None:
    """Estimate the seconds until all tests have ended; None without an earlier run. Pure.

    :param before: seconds after which an earlier whole run had completed 1/n, 2/n ... n/n of its tests. The tests that
        share clusters are slow and the pure ones fast, so that the number of tests alone says little
    """
    if not before or not total or done >= total:
        return None if done < total else 0.0
    place = done * len(before) / total
    index = int(place)
    earlier = before[index - 1] if index else 0.0
    then = earlier + (before[index] - earlier) * (place - index)
    if then < 1 or elapsed < 1:
        return max(before[-1] - elapsed, 0.0)
    # A machine that is slower today than then stays slower; the first minute says little about that.
    pace = 1 + (elapsed / then - 1) * min(then / 60, 1)
    return max((before[-1] - then) * pace, 0.0)


def line(done: int, total: int, failed: int, elapsed: float, left: float | None) -> str:
    """Return one line of progress. Pure."""
    share = f"{100 * done // total:3d} %" if total else "  0 %"
    parts = [f"{share}  {done} of {total} tests", f"{_clock(elapsed)} so far"]
    if left is not None and done < total:
        parts.append(f"about {_clock(left)} left")
    if failed:
        parts.append(f"{failed} failed")
    return ", ".join(parts)


class Progress:
    """Replaces the dots of pytest by progress lines."""

    def __init__(self, memory: Path, whole: bool) -> None:
        self._memory, self._whole = memory, whole
        self._before = _read(memory) if whole else []
        self._began = self._shown = time.monotonic()
        self._total = self._done = 0
        self._failed: dict[str, None] = {}
        self._points: list[float] = []
        self._terminal = sys.stdout.isatty()

    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: list[str]) -> None:
        """Learn the number of tests from a worker; each collects all of them."""
        self._start(len(ids))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn the number of tests without workers."""
        if session.items:
            self._start(len(session.items))

    def _start(self, total: int) -> None:
        if not self._total:
            self._total, self._began = total, time.monotonic()
            self._show()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Count outcomes that pytest reports without a dot."""
        quiet = report.when == "call" and report.passed
        return ("passed", "", "") if quiet and not hasattr(report, "wasxfail") else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Show a failure at once; count a test when it has ended."""
        if report.failed:
            self._failed[report.nodeid] = None
            text = "\n".join(report.longreprtext.splitlines()[-_SHOWN_LINES:])
            self._write(f"\nFAILED {report.nodeid} ({report.when})\n{text}\n")
        if report.when == "teardown":
            self._done += 1
            elapsed = time.monotonic() - self._began
            while len(self._points) < _POINTS * self._done // max(self._total, 1):
                self._points.append(elapsed)
            if time.monotonic() - self._shown > (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS):
                self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        elapsed = self._shown - self._began
        left = seconds_left(self._done, self._total, elapsed, self._before)
        text = line(self._done, self._total, len(self._failed), elapsed, left)
        self._write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def pytest_sessionfinish(self) -> None:
        """Save the times of a whole run for the estimate of the next one."""
        if self._total:
            self._show()
            self._write("\n")
        if self._whole and len(self._points) == _POINTS:
            try:
                self._memory.parent.mkdir(parents=True, exist_ok=True)
                self._memory.write_text(json.dumps(self._points))
            except OSError:
                pass  # The estimate is a convenience; a full disk must not fail a run.


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which hack/test asks for progress."""
    parser.addoption("--progress", action="store_true", help="show how far the run is, and each failure at once")


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that prints shows progress."""
    if config.getoption("--progress") and not hasattr(config, "workerinput"):
        whole = bool(config.option.numprocesses) and config.args == [EVERYTHING]
        config.pluginmanager.register(Progress(cache.folder() / f"seconds-{tier_of(config)}.json", whole))


def _read(memory: Path) -> list[float]:
    try:
        return [float(each) for each in json.loads(memory.read_text())]
    except (OSError, ValueError, TypeError):
        return []


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
