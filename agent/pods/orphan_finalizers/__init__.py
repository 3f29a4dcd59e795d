"""Free proxy pods from finalizers of deleted targets."""

from agent.pods.orphan_finalizers.controller import OrphanFinalizersController

__all__ = ["OrphanFinalizersController"]
