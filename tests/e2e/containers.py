"""The chart's processes, which run in containers, with their process ids and logs on this machine."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from hack.lab.sandbox import Cluster, network, process
from hack.lab.sandbox.realnode import cgroups
from tests.chart.helm import NAMESPACE

RELEASE = "flotilla"
PROGRAMS: dict[str, tuple[str, Callable[[list[str]], bool]]] = {
    "agent": ("agent", lambda command: command[1:3] == ["-m", "agent"]),
    "webhook": ("webhook", lambda command: command[1:3] == ["-m", "webhook"]),
    "candidate-scheduler": ("candidates", lambda command: command[0].endswith("kube-scheduler")),
}
"""For each process name of a sandbox: the component of its pods, and a check of the command line."""


class InstalledCluster(Cluster):
    """A cluster whose agent, webhook and candidate scheduler run in containers on its real node."""

    def pids(self, name: str) -> list[int]:
        """Return the ids of a component's running processes, the newest last."""
        _, fits = PROGRAMS[name]
        node = network.namespace_name(self.runner.plan.identity, self.name)
        found = []
        for pid in cgroups.members(node):
            with contextlib.suppress(OSError):
                if fits(Path(f"/proc/{pid}/cmdline").read_text().split("\0")) and process.is_alive(pid):
                    found.append((int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]), pid))
        return [pid for _, pid in sorted(found)]

    def pid(self, name: str) -> int | None:
        """Return the id of a process, None if it does not run."""
        if name not in PROGRAMS:
            return super().pid(name)
        return next(reversed(self.pids(name)), None)

    def log(self, name: str) -> Path:
        """Return the log of a process. For containers this is the kubelet's log file of the newest one."""
        if name not in PROGRAMS:
            return super().log(name)
        logs = (self.directory / "node" / "log" / "pods").glob(f"{NAMESPACE}_{RELEASE}-*/{name}/*.log")
        return max(logs, key=lambda path: path.stat().st_mtime, default=Path(os.devnull))
