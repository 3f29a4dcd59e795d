"""Give clusters scores of what they have left."""

from agent.placement.usage_scores.controller import UsageScoresController

__all__ = ["UsageScoresController"]
