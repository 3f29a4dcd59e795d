"""What the mover measures."""

from prometheus_client import Counter, Gauge, Histogram

from agent.base.metrics import REGISTRY

MOVES = Counter(
    "flotilla_moves_total",
    "Pods that were to leave their target, by cause, kind of owner and outcome: replaced, evicted, failed where nothing"
    " of them runs any more, deleted where they were not available there, or undone where the replacement was not"
    " needed, or of no use.",
    ("cause", "kind", "outcome"),
    registry=REGISTRY,
)
IN_PROGRESS = Gauge("flotilla_moves_in_progress", "Replacements that are not adopted yet.", registry=REGISTRY)
WAITING = Gauge(
    "flotilla_moves_waiting",
    "Pods that are not where they should be, by the reason that their condition Placed gives.",
    ("reason",),
    registry=REGISTRY,
)
REASONS = ("Misplaced", "Moving", "NoRoom", "Held", "DataElsewhere", "IdentityMayRun")
SECONDS = Histogram(
    "flotilla_move_seconds",
    "Seconds from the creation of a replacement until it is adopted.",
    buckets=(1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640),
    registry=REGISTRY,
)
