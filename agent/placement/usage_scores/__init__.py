"""Scores of clusters for their free capacity."""

from agent.placement.usage_scores.controller import UsageScoresController

__all__ = ["UsageScoresController"]
