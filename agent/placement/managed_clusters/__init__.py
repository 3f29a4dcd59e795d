"""ManagedClusters: the candidates of Placements, one for each cluster that has a Target."""

from agent.placement.managed_clusters.controller import ManagedClusterController
from agent.placement.managed_clusters.sets import ClusterSetController
from agent.placement.managed_clusters.targets import TargetClusterController

__all__ = ["ClusterSetController", "ManagedClusterController", "TargetClusterController"]
