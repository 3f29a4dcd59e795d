"""Several real Kubernetes clusters on one machine: control planes with fake nodes, each on an address of its own.

For the demo, the tests and the benchmarks: `Sandbox(directory).up()`, `.down()`, and faults on purpose.
"""

from agent.sandbox.cluster import Cluster
from agent.sandbox.errors import SandboxError
from agent.sandbox.sandbox import Sandbox

__all__ = ["Cluster", "Sandbox", "SandboxError"]
