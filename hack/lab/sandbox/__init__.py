"""Several real Kubernetes clusters on one machine: control planes with fake or real nodes, each at its own address.

For the demo, the tests and the benchmarks: `Sandbox(directory).up()`, `.down()`, and intentional faults.
"""

from hack.lab.sandbox.cluster import Cluster
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.sandbox import Sandbox

__all__ = ["Cluster", "Sandbox", "SandboxError"]
