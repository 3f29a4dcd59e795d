"""Sources leave signs of life in their targets, and learn there of others with their UID."""

from agent.targets.heartbeats.controller import HeartbeatController, HeartbeatPlaceController

__all__ = ["HeartbeatController", "HeartbeatPlaceController"]
