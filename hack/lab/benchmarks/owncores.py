"""CPU quota for every cluster: a control group for its processes, as root (cgroups(7))."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from hack.lab.benchmarks.errors import BenchError

_PERIOD = 100_000
"""Period of a quota in microseconds, the kernel's default."""
_V2, _V1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")
_ENDING_SECONDS = 5.0


class OwnCores:
    """Control groups of a benchmark, one for each cluster."""

    def __init__(self, cores: float, parent: Path, *, version: int) -> None:
        self._parent = parent
        self._quota = round(cores * _PERIOD)
        self._version = version

    def give(self, cluster: str, pids: Iterable[int]) -> None:
        """Move the processes of a cluster, with all later children, to a control group. Raises BenchError."""
        group = self._parent / cluster
        try:
            group.mkdir(exist_ok=True)
            for name, text in limits(self._quota, self._version).items():
                (group / name).write_text(text)
            for pid in pids:
                (group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise _impossible(error) from error


def limits(quota: int, version: int) -> dict[str, str]:
    """Return the files of a control group that limit its processes to `quota` microseconds per period. Pure."""
    if version == 1:
        return {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
    return {"cpu.max": f"{quota} {_PERIOD}"}


@contextlib.contextmanager
def own_cores(cores: float) -> Iterator[OwnCores]:
    """Create control groups, and remove them at the end. Raises BenchError if the system does not allow them."""
    version = 2 if (_V2 / "cgroup.controllers").exists() else 1
    parent = (_V2 if version == 2 else _V1) / f"flotilla-bench-{os.getpid()}"
    try:
        if version == 2:
            (_V2 / "cgroup.subtree_control").write_text("+cpu")
        parent.mkdir()
        if version == 2:
            (parent / "cgroup.subtree_control").write_text("+cpu")
    except OSError as error:
        raise _impossible(error) from error
    try:
        yield OwnCores(cores, parent, version=version)
    finally:
        for group in (*parent.glob("*/"), parent):
            _remove(group)


def _remove(group: Path) -> None:
    """Remove a group; retries, since the kernel releases it a moment after its last process has ended."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _impossible(error: OSError) -> BenchError:
    return BenchError(f"--own-cores takes root and the CPU controller of control groups: {error}")
