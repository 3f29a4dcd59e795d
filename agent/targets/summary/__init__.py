"""Tell source clusters what this one has."""

from agent.targets.summary.controller import SummaryRoom

__all__ = ["SummaryRoom"]
