"""ConfigMaps and Secrets that pods need follow them into their targets."""

from agent.dependencies.follow.controller import FollowController
from agent.dependencies.follow.permitted import PermittedController
from agent.dependencies.follow.release import ReleaseController

__all__ = ["FollowController", "PermittedController", "ReleaseController"]
