"""PodChaperon -> delegate pod, in the target cluster."""
