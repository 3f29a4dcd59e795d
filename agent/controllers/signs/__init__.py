"""Sources leave signs of life in their targets, and learn there of others with their UID."""

from agent.controllers.signs.controller import SignsRoom
from agent.controllers.signs.place import SignsPlaceRoom

__all__ = ["SignsPlaceRoom", "SignsRoom"]
