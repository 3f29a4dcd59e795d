"""CPU time and memory of processes, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12
"""Indexes after the process name in /proc/PID/stat (proc(5): fields 14 and 15)."""


@dataclass(frozen=True)
class Usage:
    """Usage of a process: CPU seconds, and current and peak memory in KiB."""

    cpu: float
    rss: int
    peak: int


def usage(pid: int) -> Usage:
    """Read the usage of a process. Raises OSError if it no longer exists."""
    directory = Path(f"/proc/{pid}")
    return parse((directory / "stat").read_text(), (directory / "status").read_text())


def parse(stat: str, status: str) -> Usage:
    """Return the usage from the text of /proc/PID/stat and /proc/PID/status. The memory of an ending process is 0."""
    # The name is in parentheses and may itself contain spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return Usage(ticks / _TICKS_PER_SECOND, _kib(lines, "VmRSS"), _kib(lines, "VmHWM"))


def _kib(lines: dict[str, str], name: str) -> int:
    return int(lines.get(name, "0 kB").split()[0])


def machine() -> float:
    """Return the CPU seconds of all processors of the machine since it started."""
    return parse_machine(Path("/proc/stat").read_text())


def parse_machine(stat: str) -> float:
    """Return these CPU seconds from the text of /proc/stat.

    Excludes idle time, waiting for disks, and guests' time, which user time contains already.
    """
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = (int(word) for word in stat.split()[1:9])
    return (user + nice + system + interrupts + soft_interrupts + stolen) / _TICKS_PER_SECOND
