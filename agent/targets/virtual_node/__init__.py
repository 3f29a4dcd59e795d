"""Virtual nodes: the nodes that stand for targets, their leases, and pods that should not be on them."""

from agent.targets.virtual_node.controller import VirtualNodeRoom
from agent.targets.virtual_node.foreign_pods import ForeignPodRoom
from agent.targets.virtual_node.lease import NodeLeaseRoom
from agent.targets.virtual_node.unplaced import UnplacedPodRoom

__all__ = ["ForeignPodRoom", "NodeLeaseRoom", "UnplacedPodRoom", "VirtualNodeRoom"]
