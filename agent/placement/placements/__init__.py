"""Placements of Open Cluster Management, evaluated: which clusters they select is written into PlacementDecisions."""
