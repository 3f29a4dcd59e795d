"""Free proxy pods from finalizers of targets that are no more."""

from agent.controllers.cleanup.controller import CleanupRoom

__all__ = ["CleanupRoom"]
