"""Connect to the clusters that Targets and ClusterTargets name, and let go of them in order."""

from agent.controllers.target.controller import TargetRoom
from agent.controllers.target.secrets import TargetSecretRoom

__all__ = ["TargetRoom", "TargetSecretRoom"]
