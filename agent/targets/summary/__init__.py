"""Publishes capacity and properties of this cluster to its sources."""

from agent.targets.summary.controller import SummaryController

__all__ = ["SummaryController"]
