"""Controllers of Placements, ManagedClusters and scores."""
