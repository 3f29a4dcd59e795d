"""Tell source clusters what this one has."""

from agent.controllers.summary.controller import SummaryRoom

__all__ = ["SummaryRoom"]
