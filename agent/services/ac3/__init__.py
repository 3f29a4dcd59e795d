"""AC3's networks: their links become ServiceLinks, whose status is copied back to the network."""

from agent.services.ac3.controller import AC3NetworkController

__all__ = ["AC3NetworkController"]
