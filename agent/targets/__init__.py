"""Controllers of a remote cluster: Targets, virtual nodes, ClusterSummaries, Sources, heartbeats."""
