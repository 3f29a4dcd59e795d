"""What every layer above may use: clock, backoff, metrics, log. Nothing here knows Kubernetes."""
