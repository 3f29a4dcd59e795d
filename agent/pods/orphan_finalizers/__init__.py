"""Free proxy pods from finalizers of targets that are no more."""

from agent.pods.orphan_finalizers.controller import OrphanFinalizersController

__all__ = ["OrphanFinalizersController"]
