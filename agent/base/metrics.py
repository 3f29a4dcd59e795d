"""The process' Prometheus registry, and the metrics that more than one layer writes."""

import contextlib
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUESTS = Counter(
    "flotilla_api_requests_total",
    "Requests to API servers by outcome (HTTP status, or `unreachable`).",
    ("cluster", "method", "resource", "outcome"),
    registry=REGISTRY,
)
WATCH_EVENTS = Counter(
    "flotilla_watch_events_total", "Events received by watches.", ("cluster", "resource"), registry=REGISTRY
)
WATCH_RESTARTS = Counter(
    "flotilla_watch_restarts_total",
    "Watches that ended and were resumed or listed again.",
    ("cluster", "resource", "reason"),
    registry=REGISTRY,
)
UNREADABLE = Counter(
    "flotilla_watch_unreadable_total",
    "Objects received by watches that could not be read, or only in part.",
    ("cluster", "resource"),
    registry=REGISTRY,
)
WATCH_FAILURES = Counter(
    "flotilla_watch_failures_total",
    "Objects received by watches at which something inside of the agent failed.",
    ("cluster", "resource"),
    registry=REGISTRY,
)
RECONCILES = Counter(
    "flotilla_reconciles_total", "Reconciliations by outcome.", ("controller", "outcome"), registry=REGISTRY
)
RECONCILE_SECONDS = Histogram(
    "flotilla_reconcile_seconds",
    "Duration of reconciliations in seconds.",
    ("controller",),
    buckets=LATENCY_BUCKETS,
    registry=REGISTRY,
)
OLDEST_RECONCILE = Gauge(
    "flotilla_reconcile_oldest_seconds",
    "Age of the oldest running reconciliation in seconds, 0 if none runs.",
    ("controller",),
    registry=REGISTRY,
)
QUEUE_DEPTH = Gauge("flotilla_queue_depth", "Keys waiting in a queue.", ("controller",), registry=REGISTRY)
TASK_FAILURES = Counter(
    "flotilla_task_failures_total", "Long-running tasks that failed and were restarted.", ("task",), registry=REGISTRY
)
LISTENER_FAILURES = Counter(
    "flotilla_listener_failures_total",
    "Changes of objects that a part of the agent failed to process.",
    registry=REGISTRY,
)


@contextlib.contextmanager
def shown(gauge: Gauge, read: Callable[[], float]) -> Iterator[None]:
    """Make a gauge show the result of `read`, and 0 afterwards.

    A gauge keeps a reference to its function: without the reset, a former leader would keep all that it refers to.
    """
    gauge.set_function(read)
    try:
        yield
    finally:
        gauge.set_function(_nothing)


def _nothing() -> float:
    return 0.0
