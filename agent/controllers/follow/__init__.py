"""ConfigMaps and Secrets that pods need follow them into their targets."""

from agent.controllers.follow.controller import FollowRoom
from agent.controllers.follow.permitted import PermittedRoom
from agent.controllers.follow.release import ReleaseRoom

__all__ = ["FollowRoom", "PermittedRoom", "ReleaseRoom"]
