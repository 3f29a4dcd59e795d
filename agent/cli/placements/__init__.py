"""Open Cluster Management's objects in the CLI: clusters, their sets, and decisions of Placements."""
