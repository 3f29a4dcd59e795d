"""ManagedClusters: what Placements are evaluated over, one for each cluster that a Target leads to."""

from agent.placement.managed_clusters.controller import ManagedClusterController
from agent.placement.managed_clusters.sets import ClusterSetController
from agent.placement.managed_clusters.targets import TargetClusterController

__all__ = ["ClusterSetController", "ManagedClusterController", "TargetClusterController"]
