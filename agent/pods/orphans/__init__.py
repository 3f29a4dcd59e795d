"""Controller that reports held orphans on Targets."""

from agent.pods.orphans.controller import OrphansController

__all__ = ["OrphansController"]
