"""Sources write heartbeats to their targets, and detect other sources with the same cluster UID there."""

from agent.targets.heartbeats.controller import HeartbeatController, HeartbeatPlaceController

__all__ = ["HeartbeatController", "HeartbeatPlaceController"]
