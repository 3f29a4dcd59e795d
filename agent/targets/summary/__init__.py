"""Tell source clusters what this one has."""

from agent.targets.summary.controller import SummaryController

__all__ = ["SummaryController"]
