"""Connects to the clusters of Targets and ClusterTargets, and drains deleted Targets."""

from agent.targets.target.controller import TargetController
from agent.targets.target.secrets import TargetSecretController
from agent.targets.target.tokens import TargetTokenController

__all__ = ["TargetController", "TargetSecretController", "TargetTokenController"]
