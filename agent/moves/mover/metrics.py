"""Metrics of the mover."""

from prometheus_client import Counter, Gauge, Histogram

from agent.base.metrics import REGISTRY

MOVES = Counter(
    "flotilla_moves_total",
    "Pods that had to leave their target, by cause, kind of owner and outcome: `replaced`, `evicted`, `failed`"
    " (nothing of the pod runs any longer), `deleted` (the pod was not available) or `undone` (its replacement was"
    " unnecessary or useless).",
    ("cause", "kind", "outcome"),
    registry=REGISTRY,
)
IN_PROGRESS = Gauge(
    "flotilla_moves_in_progress", "Replacements that their owners have not adopted yet.", registry=REGISTRY
)
WAITING = Gauge(
    "flotilla_moves_waiting",
    "Pods that should be in another target, by the reason of their condition Placed.",
    ("reason",),
    registry=REGISTRY,
)
REASONS = ("Misplaced", "Moving", "NoRoom", "Held", "DataElsewhere", "IdentityMayRun")
SECONDS = Histogram(
    "flotilla_move_seconds",
    "Seconds from the creation of a replacement until its owner adopts it.",
    buckets=(1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640),
    registry=REGISTRY,
)
