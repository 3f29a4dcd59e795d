"""Say on Targets what is held there although it looks like orphans."""

from agent.pods.orphans.controller import OrphansRoom

__all__ = ["OrphansRoom"]
