"""Basics for all other packages: clock, backoff, metrics, log. Independent of Kubernetes."""
