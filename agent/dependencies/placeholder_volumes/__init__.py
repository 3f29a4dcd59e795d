"""Claims whose volume is in a target are Bound in the source, too."""

from agent.dependencies.placeholder_volumes.controller import PlaceholderVolumeController

__all__ = ["PlaceholderVolumeController"]
