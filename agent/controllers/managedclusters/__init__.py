"""ManagedClusters: what Placements are evaluated over, one for each cluster that a Target leads to."""

from agent.controllers.managedclusters.controller import ManagedClusterRoom
from agent.controllers.managedclusters.sets import ClusterSetRoom
from agent.controllers.managedclusters.targets import TargetClusterRoom

__all__ = ["ClusterSetRoom", "ManagedClusterRoom", "TargetClusterRoom"]
