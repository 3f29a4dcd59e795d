"""CPU seconds of the test process and of all processes that it starts, by test file and by program."""

import contextlib
import os
import random
import resource
import time
import zlib
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from xdist.workermanage import WorkerController

_MARK = "FLEET_TESTS_OF"
_SAMPLE_SECONDS = 5.0
_PACE_SECONDS = 30.0
_TEXT = bytes(random.Random(1).choices(b"abcdefgh \n", k=60_000))
_USUAL_SECONDS = 0.003
"""CPU seconds of packing it in a whole run, when the best figures of hack/design/20261122-what-tests-cost.md
were measured.

Derived: it took 6.5 ms in a whole run on a day on which a Python loop took 2.15 times as long.
"""
_SHOWN_FILES = 40
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_ENDED = "programs that ended soon"
_OUTPUT = "costs"


class Processes:
    """CPU seconds of this process, and of all processes that inherit its mark in their environment."""

    def __init__(self) -> None:
        self._mark = f"{_MARK}={os.getpid()}".encode()
        os.environ[_MARK] = str(os.getpid())
        self._ours: dict[tuple[int, int], bool] = {}
        self._seen: dict[tuple[int, int], tuple[str, float]] = {}
        self._ended = 0.0

    def seconds(self) -> Counter[str]:
        """Return the CPU seconds so far, by program; short-lived children count by their parents' usage."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        reaped = usage.ru_utime + usage.ru_stime
        alive = set()
        for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdecimal()):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            key = (pid, int(fields[19]))
            if self._is_ours(key):
                alive.add(key)
                self._seen[key] = (_program(pid), _seconds(fields[11:13]))
                reaped += _seconds(fields[13:15])
        total = Counter({"pytest": time.process_time()})
        for program, seconds in self._seen.values():
            total[program] += seconds
        # The usage of an ended parent's children is lost to its own parent.
        self._ended = max(self._ended, reaped - sum(each[1] for key, each in self._seen.items() if key not in alive))
        total[_ENDED] = self._ended
        return total

    def _is_ours(self, key: tuple[int, int]) -> bool:
        if key not in self._ours:
            try:
                environment = Path(f"/proc/{key[0]}/environ").read_bytes()
            except OSError:
                return False
            if not environment:
                return False  # During exec the environment is empty: the next sample shows the owner.
            self._ours[key] = self._mark in environment.split(b"\0")
        return self._ours[key]


class Costs:
    """Attributes CPU time to the file of the running test."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()
        self.programs: Counter[str] = Counter()
        self.paces: list[float] = []
        self._processes = Processes()
        self._last = self._processes.seconds()
        self._sampled = self._paced = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Sample at intervals, and when the next test is of another file."""
        began = time.monotonic()
        result = yield
        now = time.monotonic()
        file = item.nodeid.partition("::")[0]
        self.waited[file] += now - began
        if nextitem is None or nextitem.path != item.path or now - self._sampled > _SAMPLE_SECONDS:
            self._sampled = now
            seconds = self._processes.seconds()
            spent = Counter({name: value - self._last[name] for name, value in seconds.items()})
            self._last = seconds
            self.files[file] += sum(spent.values())
            self.programs += spent
        if now - self._paced > _PACE_SECONDS:
            self._paced = now
            self.paces.append(pace())
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the figures to the process that sums up."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = [*(dict(each) for each in (self.files, self.waited, self.programs)), self.paces]


class Bill:
    """Sum of all workers' CPU time, with the most expensive files."""

    def __init__(self, alone: Costs | None) -> None:
        self._files, self._waited, self._programs = Counter[str](), Counter[str](), Counter[str]()
        self._paces: list[float] = []
        self._alone = alone

    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Add the figures of a worker that has ended; a crashed one reports none."""
        self._add(*getattr(node, "workeroutput", {}).get(_OUTPUT, ({}, {}, {}, [])))

    def _add(
        self, files: dict[str, float], waited: dict[str, float], programs: dict[str, float], paces: list[float]
    ) -> None:
        self._files.update(files)
        self._waited.update(waited)
        self._programs.update(programs)
        self._paces += paces

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the bill."""
        if self._alone:
            self._add(self._alone.files, self._alone.waited, self._alone.programs, self._alone.paces)
        spent = sum(self._programs.values())
        terminalreporter.section(f"{spent / 60:.1f} core-minutes, by file and by program")
        for file, seconds in self._files.most_common(_SHOWN_FILES):
            terminalreporter.write_line(f"{seconds:8.1f} s of CPU {self._waited[file]:8.1f} s  {file}")
        shown = [f"{name} {seconds:.0f} s" for name, seconds in self._programs.most_common() if seconds >= 1]
        terminalreporter.write_line(", ".join(shown))
        if self._paces:
            pace = sum(self._paces) / len(self._paces)
            terminalreporter.write_line(
                f"cores are {pace:.1f} times slower than where the best figures of hack/design were made:"
                f" there about {spent / 60 / pace:.1f} core-minutes"
            )


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each process that runs tests, and sum up in the one that prints."""
    runs = hasattr(config, "workerinput") or not config.option.numprocesses
    costs = Costs() if runs else None
    if costs:
        config.pluginmanager.register(costs)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Bill(costs))


def pace() -> float:
    """Return how many times the usual CPU time a core takes now; a virtual machine may share its cores with others."""
    began = time.thread_time()
    zlib.compress(_TEXT)
    return (time.thread_time() - began) / _USUAL_SECONDS


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / _TICKS_PER_SECOND


def _program(pid: int) -> str:
    line = ""
    with contextlib.suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    words = line.split("\0")
    name = os.path.basename(words[0]) or _ENDED
    return f"{name} -m {words[2]}" if len(words) > 2 and words[1] == "-m" else name
