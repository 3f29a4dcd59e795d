"""Cgroups of real nodes: one tree per node in every hierarchy, in which the kubelet creates those of pods.

Its name contains the sandbox, so that `down` finds the containers of a node even without the record.
"""

import errno
import fnmatch
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from hack.lab.sandbox.errors import SandboxError

MOUNTS = Path("/proc/self/mountinfo")

_CPUSET = ("cpuset.cpus", "cpuset.mems")
_BUSY_TRIES = 100
_BUSY_SECONDS = 0.02


def hierarchies(mountinfo: str) -> list[Path]:
    """Return the mount points of cgroup hierarchies, of either version. Pure."""
    found = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if right.split(" ", 1)[0] in ("cgroup", "cgroup2"):
            found.append(Path(left.split()[4]))
    return found


def make(name: str) -> None:
    """Create a node's cgroup in every hierarchy. Raises SandboxError if the system does not allow it."""
    mounted = hierarchies(MOUNTS.read_text())
    if not mounted:
        raise SandboxError("real nodes need cgroups, and no cgroup hierarchy is mounted: use --nodes kwok:N")
    unified = len(mounted) == 1
    for hierarchy in mounted:
        try:
            if unified:
                _delegate(hierarchy)
            (hierarchy / name).mkdir(exist_ok=True)
            _inherit_cpuset(hierarchy, hierarchy / name)
        except OSError as error:
            raise SandboxError(
                f"real nodes need cgroups of their own, and {hierarchy / name} cannot be made ({error.strerror}):"
                " run on the machine itself or in a privileged container, or use --nodes kwok:N"
            ) from error


def members(pattern: str) -> set[int]:
    """Return the process ids in the cgroups of nodes whose name matches (as in a shell), and below."""
    pids: set[int] = set()
    for root in _roots(pattern):
        for folder in _tree(root):
            try:
                pids.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
            except OSError:
                continue  # It has just been removed.
    return pids


def kill(pid: int, pattern: str) -> None:
    """Kill a process if it is in such a cgroup."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        # The descriptor pins the process, so that the checked process is the killed one.
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        folders = (part for line in lines for part in line.split(":", 2)[2].split("/"))
        if any(fnmatch.fnmatchcase(part, pattern) for part in folders):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        return
    finally:
        os.close(descriptor)


def remove(pattern: str) -> bool:
    """Remove the cgroups of nodes whose name matches; their processes must have ended. Return whether any existed."""
    roots = list(_roots(pattern))
    for root in roots:
        for folder in reversed(list(_tree(root))):
            _remove_one(folder)
    return bool(roots)


def _roots(pattern: str) -> Iterator[Path]:
    for hierarchy in hierarchies(MOUNTS.read_text()):
        yield from hierarchy.glob(pattern)


def _tree(root: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(root):
        yield Path(folder)


def _remove_one(folder: Path) -> None:
    for _ in range(_BUSY_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            # The kernel releases a process shortly after its end.
            if error.errno != errno.EBUSY:
                raise
            time.sleep(_BUSY_SECONDS)
        else:
            return
    raise SandboxError(f"cgroup {folder} cannot be removed: something still runs in it")


def _delegate(hierarchy: Path) -> None:
    """Let cgroups below the root of a unified hierarchy use its controllers."""
    control = hierarchy / "cgroup.subtree_control"
    if control.exists():
        missing = set((hierarchy / "cgroup.controllers").read_text().split()) - set(control.read_text().split())
        for controller in sorted(missing):
            control.write_text(f"+{controller}")


def _inherit_cpuset(parent: Path, folder: Path) -> None:
    """Copy CPUs and memory from the parent: version 1 creates a cpuset without any, which no process can join."""
    for name in _CPUSET:
        if (folder / "cgroup.procs").exists() and (folder / name).exists() and not (folder / name).read_text().strip():
            inherited = (parent / name).read_text()
            if inherited.strip():
                (folder / name).write_text(inherited)
