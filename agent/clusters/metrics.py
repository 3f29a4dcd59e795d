"""What is measured of targets."""

from prometheus_client import Gauge

from agent.base.metrics import REGISTRY
from agent.clusters.target import Target

READY = Gauge(
    "flotilla_target_ready",
    "Whether a target is connected and authorized (1) or not (0).",
    ("target",),
    registry=REGISTRY,
)
SLOW = Gauge(
    "flotilla_target_slow",
    "Whether a target answers so slowly that pods which can go elsewhere do (1) or not (0).",
    ("target",),
    registry=REGISTRY,
)


def note(target: Target) -> None:
    """The state of a target may have changed."""
    name = "/".join(target.key).lstrip("/")
    READY.labels(name).set(target.ready)
    SLOW.labels(name).set(target.slow)


def forget(target: Target) -> None:
    """A target is none any more."""
    name = "/".join(target.key).lstrip("/")
    for gauge in (READY, SLOW):
        gauge.remove(name)
