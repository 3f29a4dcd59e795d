"""Placements of Open Cluster Management, evaluated: which clusters, why, and when to look again. Pure."""
