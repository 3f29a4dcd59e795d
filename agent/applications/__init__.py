"""Applications of P2CODE's scheduler: each bundle gets a cluster through a Placement, and its objects are applied."""

from agent.applications.controller import P2CodeController

__all__ = ["P2CodeController"]
