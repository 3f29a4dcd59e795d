"""Connect to the clusters that Targets and ClusterTargets name, and let go of them in order."""

from agent.controllers.target.controller import TargetRoom
from agent.controllers.target.secrets import TargetSecretRoom
from agent.controllers.target.tokens import TargetTokenRoom

__all__ = ["TargetRoom", "TargetSecretRoom", "TargetTokenRoom"]
