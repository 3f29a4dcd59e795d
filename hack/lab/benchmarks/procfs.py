"""CPU time and memory of processes, as the kernel counts them in /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12
"""Places after the process name in /proc/PID/stat (proc(5): fields 14 and 15 of all)."""


@dataclass(frozen=True)
class Usage:
    """What a process has used so far: CPU seconds, memory in KiB now and at its peak."""

    cpu: float
    rss: int
    peak: int


def usage(pid: int) -> Usage:
    """Read a process. Raises OSError when it is gone."""
    directory = Path(f"/proc/{pid}")
    return parse((directory / "stat").read_text(), (directory / "status").read_text())


def parse(stat: str, status: str) -> Usage:
    """Usage from the text of /proc/PID/stat and /proc/PID/status. A process that is ending has no memory left."""
    # The name is in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return Usage(ticks / _TICKS_PER_SECOND, _kib(lines, "VmRSS"), _kib(lines, "VmHWM"))


def _kib(lines: dict[str, str], name: str) -> int:
    return int(lines.get(name, "0 kB").split()[0])


def machine() -> float:
    """CPU seconds that all processors of the machine have worked since it started, for whomever."""
    return parse_machine(Path("/proc/stat").read_text())


def parse_machine(stat: str) -> float:
    """The same from the text of /proc/stat: all but idle time, waiting for disks, and time of guests (in user time)."""
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = (int(word) for word in stat.split()[1:9])
    return (user + nice + system + interrupts + soft_interrupts + stolen) / _TICKS_PER_SECOND
