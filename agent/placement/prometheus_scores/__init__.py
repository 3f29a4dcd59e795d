"""Scores of clusters from Prometheus queries."""

from agent.placement.prometheus_scores.controller import PrometheusScoresController

__all__ = ["PrometheusScoresController"]
