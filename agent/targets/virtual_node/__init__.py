"""Virtual nodes, which represent targets: the Node objects, their leases, and pods that should not be on them."""

from agent.targets.virtual_node.controller import VirtualNodeController
from agent.targets.virtual_node.foreign_pods import ForeignPodController
from agent.targets.virtual_node.lease import NodeLeaseController
from agent.targets.virtual_node.unplaced import UnplacedPodController

__all__ = ["ForeignPodController", "NodeLeaseController", "UnplacedPodController", "VirtualNodeController"]
