"""Flotilla's agent: many Kubernetes clusters that work as one."""

__version__ = "0.1.0"
