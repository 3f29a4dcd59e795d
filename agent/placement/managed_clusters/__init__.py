"""ManagedClusters: what Placements are evaluated over, one for each cluster that a Target leads to."""

from agent.placement.managed_clusters.controller import ManagedClusterRoom
from agent.placement.managed_clusters.sets import ClusterSetRoom
from agent.placement.managed_clusters.targets import TargetClusterRoom

__all__ = ["ClusterSetRoom", "ManagedClusterRoom", "TargetClusterRoom"]
