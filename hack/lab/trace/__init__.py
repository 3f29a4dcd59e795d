"""What one pod passes: agents and the webhook under a tracer of which their code knows nothing."""
