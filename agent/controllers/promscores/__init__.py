"""Give clusters scores that a Prometheus knows."""

from agent.controllers.promscores.controller import PrometheusScoresRoom

__all__ = ["PrometheusScoresRoom"]
