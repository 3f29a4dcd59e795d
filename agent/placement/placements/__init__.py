"""Evaluation of Open Cluster Management's Placements: selected clusters are written to PlacementDecisions."""
