"""One cluster of a sandbox that is up, as whoever uses it sees it."""

from pathlib import Path

from hack.lab.sandbox.bringup import Runner
from hack.lab.sandbox.plan import ClusterPlan, Plan


class Cluster:
    """One cluster of a sandbox that is up."""

    def __init__(self, plan: Plan, cluster: ClusterPlan, directory: Path) -> None:
        self.runner = Runner(plan, cluster, directory)
        self.name = cluster.name
        self.address = cluster.address
        self.server = cluster.server
        self.ports = cluster.ports
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"

    def pid(self, name: str) -> int | None:
        """Process id of one of the cluster's processes, None while it does not run."""
        return self.runner.find(name)

    def log(self, name: str) -> Path:
        """Log of one of the cluster's processes."""
        return self.directory / f"{name}.log"
