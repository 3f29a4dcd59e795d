"""Cores of its own for every cluster: a control group with a CPU quota for its processes, as root (cgroups(7))."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from hack.lab.benchmarks.errors import BenchError

_PERIOD = 100_000
"""Microseconds in which a quota counts, the kernel's default."""
_V2, _V1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")
_ENDING_SECONDS = 5.0


class OwnCores:
    """The control groups of a benchmark, one for each cluster."""

    def __init__(self, cores: float, parent: Path, *, version: int) -> None:
        self._parent = parent
        self._quota = round(cores * _PERIOD)
        self._version = version

    def give(self, cluster: str, pids: Iterable[int]) -> None:
        """Give the processes of a cluster, and all they start, cores of their own. Raises BenchError."""
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
    """The files of a control group that bound its processes to `quota` microseconds in each period. Pure."""
    if version == 1:
        return {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
    return {"cpu.max": f"{quota} {_PERIOD}"}


@contextlib.contextmanager
def own_cores(cores: float) -> Iterator[OwnCores]:
    """Control groups that are gone in the end. Raises BenchError where there can be none."""
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
    """Remove a group, which the kernel lets go a moment after its last process."""
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
