"""Open Cluster Management's objects as the command shows them: clusters, their sets, and what a Placement decides."""
