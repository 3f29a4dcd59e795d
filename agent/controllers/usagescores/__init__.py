"""Give clusters scores of what they have left."""

from agent.controllers.usagescores.controller import UsageScoresRoom

__all__ = ["UsageScoresRoom"]
