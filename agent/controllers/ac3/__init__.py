"""AC3's networks: their links become ServiceLinks, whose status is copied back to the network."""

from agent.controllers.ac3.controller import NetworksRoom

__all__ = ["NetworksRoom"]
