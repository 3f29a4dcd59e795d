"""Claims whose volume is in a target are Bound here, too."""

from agent.controllers.standins.controller import StandInRoom

__all__ = ["StandInRoom"]
