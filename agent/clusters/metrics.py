"""Metrics of targets."""

from prometheus_client import Gauge

from agent.base.metrics import REGISTRY
from agent.clusters.target import Target
from agent.kube.store import Key
from agent.model.token import Claims

READY = Gauge(
    "flotilla_target_ready",
    "Whether a target is connected and authorized (1) or not (0).",
    ("target",),
    registry=REGISTRY,
)
SLOW = Gauge(
    "flotilla_target_slow",
    "Whether a target answers so slowly that pods prefer other targets (1) or not (0).",
    ("target",),
    registry=REGISTRY,
)
HELD = Gauge(
    "flotilla_target_orphans_held",
    "PodChaperons in a target whose deletion is held, although this cluster has none of their pods.",
    ("target",),
    registry=REGISTRY,
)
TOKEN_EXPIRY = Gauge(
    "flotilla_target_token_expiry_timestamp_seconds",
    "Expiry of the token in the Secret of a target, in seconds since the epoch.",
    ("target",),
    registry=REGISTRY,
)
TOKEN_LIFETIME = Gauge(
    "flotilla_target_token_lifetime_seconds",
    "Whole lifetime of that token in seconds. The agent renews it after four fifths.",
    ("target",),
    registry=REGISTRY,
)


def note(target: Target) -> None:
    """Update the metrics of a target."""
    name = _name(target.key)
    READY.labels(name).set(target.ready)
    SLOW.labels(name).set(target.slow)
    HELD.labels(name)


def note_held(target: Target, orphans: int) -> None:
    """Set the number of orphans held in a target."""
    HELD.labels(_name(target.key)).set(orphans)


def note_token(key: Key, claims: Claims | None) -> None:
    """Set the expiry of a target's token. None: the token does not expire."""
    if claims is None:
        _remove(key, TOKEN_EXPIRY, TOKEN_LIFETIME)
    else:
        TOKEN_EXPIRY.labels(_name(key)).set(claims.expires.timestamp())
        TOKEN_LIFETIME.labels(_name(key)).set(claims.seconds)


def forget(target: Target) -> None:
    """Remove the metrics of a deleted target."""
    _remove(target.key, READY, SLOW, HELD, TOKEN_EXPIRY, TOKEN_LIFETIME)


def _remove(key: Key, *gauges: Gauge) -> None:
    for gauge in gauges:
        gauge.remove(_name(key))


def _name(key: Key) -> str:
    return "/".join(key).lstrip("/")
