"""Give clusters scores that a Prometheus knows."""

from agent.placement.prometheus_scores.controller import PrometheusScoresController

__all__ = ["PrometheusScoresController"]
