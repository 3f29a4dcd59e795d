"""Connect to the clusters that Targets and ClusterTargets name, and let go of them in order."""

from agent.targets.target.controller import TargetRoom
from agent.targets.target.secrets import TargetSecretRoom
from agent.targets.target.tokens import TargetTokenRoom

__all__ = ["TargetRoom", "TargetSecretRoom", "TargetTokenRoom"]
