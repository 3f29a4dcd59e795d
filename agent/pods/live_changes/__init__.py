"""Proxy pod -> chaperon: changes of a running pod, applied to its delegate."""
