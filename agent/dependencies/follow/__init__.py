"""ConfigMaps and Secrets that pods need follow them into their targets."""

from agent.dependencies.follow.controller import FollowRoom
from agent.dependencies.follow.permitted import PermittedRoom
from agent.dependencies.follow.release import ReleaseRoom

__all__ = ["FollowRoom", "PermittedRoom", "ReleaseRoom"]
