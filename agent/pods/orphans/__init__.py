"""Say on Targets what is held there although it looks like orphans."""

from agent.pods.orphans.controller import OrphansController

__all__ = ["OrphansController"]
