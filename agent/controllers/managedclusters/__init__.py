"""ManagedClusters: what Placements are evaluated over, one for each cluster that a Target leads to."""

from agent.controllers.managedclusters.targets import TargetClusterRoom

__all__ = ["TargetClusterRoom"]
