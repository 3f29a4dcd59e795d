"""One list and watch per kind, namespace and selector, shared by all controllers of a cluster."""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Protocol
from weakref import WeakSet

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from agent.api.kinds import Kind
from agent.base.metrics import REGISTRY
from agent.base.stacks import stack_of
from agent.kube.budget import Budget
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound, one_line
from agent.kube.informer import IDLE_SECONDS, Informer
from agent.kube.reading import Reduce
from agent.runtime.supervisor import Kept, Supervisor
from agent.runtime.watchdog import late

log = logging.getLogger(__name__)

SILENT_SECONDS = 2 * IDLE_SECONDS + 60.0
"""Within this time something happens in each watch: an event, a new stream, a failure and another try."""
_LOOK_SECONDS = 15.0
_TOLD = 1000
"""Maximum number of characters in a message."""

_Asked = tuple[Kind, str | None, str, str, Reduce | None]


class Watches(Protocol):
    """The watches of one cluster."""

    def alive(self) -> Iterator[Informer]:
        """Yield the running informers."""
        ...


class Silence(Collector):
    """Longest silence of watches, computed on demand; `of` are the clusters that count."""

    _labelnames = ("cluster", "resource")

    def __init__(self) -> None:
        self.of: WeakSet[Watches] = WeakSet()

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric's name and labels, for prometheus_client."""
        return [self._empty()]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The metric's values, for prometheus_client."""
        family, now, longest = self._empty(), time.monotonic(), dict[tuple[str, str], float]()
        for watches in list(self.of):
            for informer in watches.alive():
                if not isinstance(informer.error, (Forbidden, NotFound)):
                    which = (informer.client.name, informer.kind.plural)
                    longest[which] = max(longest.get(which, 0.0), now - informer.hearing.heard)
        for which, seconds in sorted(longest.items()):
            family.add_metric(which, seconds)
        return [family]

    def _empty(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "flotilla_watch_silent_seconds",
            "Seconds since a watch last received something from its API server: an event, a bookmark, part of a list,"
            " or the start of a response. The longest if a resource has several watches."
            " Without refused ones (403, 404).",
            labels=self._labelnames,
        )


SILENCE = Silence()
REGISTRY.register(SILENCE)


class Informers:
    """The informers of one cluster, each started when it is first asked for."""

    def __init__(self, client: Client, supervisor: Supervisor, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._client = client
        self._supervisor = supervisor
        self._running: dict[_Asked, tuple[Informer, Kept]] = {}
        self._watched_over = False
        SILENCE.of.add(self)

    def get(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        reduce: Reduce | None = None,
    ) -> Informer:
        """Return the informer of a kind, in one namespace or (None) in all, with selectors."""
        asked = (kind, namespace or None, labels, fields, reduce)
        if asked not in self._running:
            informer = Informer(self._client, kind, namespace or None, labels, fields, reduce, self._budget)
            kept = self._supervisor.spawn(f"watch {self._client.name} {kind} {namespace or ''}".strip(), informer.run)
            self._running[asked] = (informer, kept)
        if not self._watched_over:
            self._watched_over = True
            self._supervisor.spawn("watch over watches", self._watch_over)
        return self._running[asked][0]

    def drop(self, informer: Informer) -> None:
        """Stop an informer that is no longer needed."""
        for asked, (running, stop) in list(self._running.items()):
            if running is informer:
                stop()
                self._budget.used -= informer.store.size
                del self._running[asked]

    def interrupt(self) -> None:
        """Make all informers resume at once on new connections."""
        for informer, _ in self._running.values():
            informer.interrupt()

    def rest(self) -> None:
        """Let all informers retry rarely, because the cluster does not answer."""
        for informer, _ in self._running.values():
            informer.rest()

    def flaws(self) -> str:
        """Which objects cannot be read and why, in one line for users; empty when all can."""
        return one_line(", ".join(filter(None, (informer.flaws.told() for informer in self))), _TOLD)

    def __iter__(self) -> Iterator[Informer]:
        return iter([informer for informer, _ in self._running.values()])

    def alive(self) -> Iterator[Informer]:
        """Return the informers that still run. Threads may call it."""
        return iter([informer for informer, kept in list(self._running.values()) if not kept.task.done()])

    async def _watch_over(self) -> None:
        """Restart watches without progress."""
        while True:
            if await late(_LOOK_SECONDS):
                continue
            now = asyncio.get_running_loop().time()
            for informer, kept in self._running.values():
                attempt = kept.attempt
                if attempt is None or now < attempt.due:
                    continue
                silent = min(time.monotonic() - informer.hearing.stirred, now - attempt.moved)
                if silent > SILENT_SECONDS:
                    what = (informer.kind, self._client.name or "local", silent, stack_of(kept.task))
                    log.error("watch of %s in cluster %s stands still for %.0f s; it begins anew:\n%s", *what)
                    attempt.end()
