"""Claims whose volume is in a target are Bound here, too."""

from agent.dependencies.placeholder_volumes.controller import StandInRoom

__all__ = ["StandInRoom"]
