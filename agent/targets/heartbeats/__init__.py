"""Sources leave signs of life in their targets, and learn there of others with their UID."""

from agent.targets.heartbeats.controller import SignsPlaceRoom, SignsRoom

__all__ = ["SignsPlaceRoom", "SignsRoom"]
