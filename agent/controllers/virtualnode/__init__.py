"""Virtual nodes: the nodes that stand for targets, their leases, and pods that should not be on them."""

from agent.controllers.virtualnode.controller import VirtualNodeRoom
from agent.controllers.virtualnode.foreign_pods import ForeignPodRoom
from agent.controllers.virtualnode.lease import NodeLeaseRoom
from agent.controllers.virtualnode.unplaced import UnplacedPodRoom

__all__ = ["ForeignPodRoom", "NodeLeaseRoom", "UnplacedPodRoom", "VirtualNodeRoom"]
