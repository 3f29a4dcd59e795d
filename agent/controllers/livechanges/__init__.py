"""Proxy pod -> chaperon: what is changed on a running pod reaches its delegate."""
