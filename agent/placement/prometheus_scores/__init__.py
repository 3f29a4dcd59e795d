"""Give clusters scores that a Prometheus knows."""

from agent.placement.prometheus_scores.controller import PrometheusScoresRoom

__all__ = ["PrometheusScoresRoom"]
