"""Programs built from Go modules."""

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agent.cli.progress import Progress, Task, ticking
from hack.lab.sandbox import cache, golang
from hack.lab.sandbox.commands import run
from hack.lab.sandbox.components import NODE_PROGRAMS, PROGRAMS
from hack.lab.sandbox.errors import BuildError

_TOTAL = "packages: "
"""Prefix of the line in which `build` prints the number of packages."""
_CPU_SECONDS_PER_PACKAGE = 0.2
_PLENTY = 1 << 30
"""Bytes of memory that the compiler needs for the largest package without garbage collection."""
_MEMORY = Path("/proc/meminfo")
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class Part:
    """Programs that are built together, with their name for `build` and their title for messages."""

    name: str
    title: str
    programs: tuple[str, ...]
    folder: str = "."
    """Folder of the part's own sources, below the sources of all parts."""


CONTROL_PLANE = Part("control-plane", "the control plane", PROGRAMS)
NODE = Part("node", " and ".join(NODE_PROGRAMS), NODE_PROGRAMS, "node")
PARTS = (CONTROL_PLANE, NODE)


async def control_plane(source: Path, out: Path, progress: Progress, part: Part = CONTROL_PLANE) -> None:
    """Build the programs of a part into the folder `out`, which appears complete or not at all. Raises BuildError."""
    await _by_script(source, out, part.name, progress, f"compiling {part.title}")


class _Count:
    """Counts compiled packages from the output of `build`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._done = 0
        self._total: int | None = None

    def line(self, line: str) -> None:
        if line.startswith(_TOTAL):
            self._total = int(line.removeprefix(_TOTAL))
        elif " " in line:
            return
        else:
            self._done += 1
        if self._total is None:
            self._task.update(self._done, None, f"{self._done} packages")
        else:
            self._task.update(self._done, self._total, f"{self._done} of {self._total} packages{expected(self._total)}")


def expected(packages: int) -> str:
    """Return the estimated time to compile so many packages on this machine; empty if below a minute."""
    minutes = round(packages * _CPU_SECONDS_PER_PACKAGE / len(os.sched_getaffinity(0)) / 60)
    return f", {minutes} min in all" if minutes else ""


def memory() -> dict[str, str]:
    """Return variables that disable Go's garbage collection until memory runs short; empty if memory is scarce.

    The compiler is a third faster with them.
    """
    share = _free_memory() // (len(os.sched_getaffinity(0)) + 1)
    if share < _PLENTY or os.environ.get("GOGC") or os.environ.get("GOMEMLIMIT"):
        return {}
    return {"GOGC": "off", "GOMEMLIMIT": str(share)}


def _free_memory() -> int:
    """Return the available memory in bytes, at most the limit of the container."""
    found = []
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = _MEMORY.read_text().splitlines()
        found.append(next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10)
    for file in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(file.read_text()))
    return min(found, default=0)


async def older(source: Path, out: Path, version: str, progress: Progress) -> None:
    """Build the control plane of another version into the folder `out`, all or nothing. Raises BuildError."""
    await _by_script(source, out, version, progress, f"compiling the control plane of Kubernetes {version}")


async def _by_script(source: Path, out: Path, what: str, progress: Progress, title: str) -> None:
    script = source / "build"
    if not script.exists():
        raise BuildError(f"{source} is missing: it is part of the source repository only")
    go = await golang.find(progress)
    with progress:
        task = progress.task(title)
        task.update(0, None, "reading the modules")
        count = _Count(task)
        argv, environment = [str(script), str(out), what], {**go.environment, **memory()}
        await ticking(progress, run(argv, cwd=source, env=environment, line=count.line))
        task.finish()


@dataclass(frozen=True)
class Module:
    """A program that is built from one Go module."""

    program: str
    version: str
    package: str
    stamp: str = ""
    """Variable in its code that the build sets to the version; empty if it needs none."""
    source: Path | None = None
    """Folder of a build script; None if `go build` is enough."""


async def module(what: Module, out: Path, progress: Progress) -> None:
    """Build a module's program into the folder `out`. Raises BuildError."""
    if what.source is not None:
        await _by_script(what.source, out, what.version, progress, f"compiling {what.program}")
        return
    go = await golang.find(progress)
    temporary = tempfile.TemporaryDirectory(prefix=cache.BUILD, dir=out.parent, ignore_cleanup_errors=True)
    with progress, temporary as folder:
        task = progress.task(f"compiling {what.program}")
        count = _Count(task)
        environment = {**go.environment, "GOBIN": folder, "CGO_ENABLED": "0", **memory()}
        stamp = f" -X {what.stamp}={what.version}" if what.stamp else ""
        flags = ["-v", "-trimpath", "-gcflags=all=-dwarf=false", f"-ldflags=-s -w{stamp}"]
        argv = [go.path, "install", *flags, f"{what.package}@{what.version}"]
        await ticking(progress, run(argv, env=environment, line=count.line))
        _place(Path(folder, what.program), out)
        task.finish()


def _place(program: Path, out: Path) -> None:
    out.mkdir(exist_ok=True)
    program.replace(out / program.name)
