"""Controllers that move pods: moves, failover, fences."""
