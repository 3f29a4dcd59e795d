"""One cluster of a running sandbox, for tests and benchmarks."""

from pathlib import Path

from hack.lab.sandbox.bringup import Runner
from hack.lab.sandbox.plan import ClusterPlan, Plan


class Cluster:
    """One cluster of a running sandbox."""

    def __init__(self, plan: Plan, cluster: ClusterPlan, directory: Path) -> None:
        self.runner = Runner(plan, cluster, directory)
        self.name = cluster.name
        self.address = cluster.address
        self.server = cluster.server
        self.ports = cluster.ports
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"

    def pid(self, name: str) -> int | None:
        """Return the process id of one of the cluster's processes; None if it does not run."""
        return self.runner.find(name)

    def log(self, name: str) -> Path:
        """Return the log of one of the cluster's processes."""
        return self.directory / f"{name}.log"
