"""Health of targets: probes, latency, outages, agents, refusals."""
