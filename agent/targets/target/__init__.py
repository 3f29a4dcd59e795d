"""Connect to the clusters that Targets and ClusterTargets name, and let go of them in order."""

from agent.targets.target.controller import TargetController
from agent.targets.target.secrets import TargetSecretController
from agent.targets.target.tokens import TargetTokenController

__all__ = ["TargetController", "TargetSecretController", "TargetTokenController"]
