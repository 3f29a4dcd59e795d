"""Health of a replica, and the reaction to problems.

A replica with a problem first releases leadership: another replica may work, and a new leader starts all work again. If
the problem recurs, a failing liveness probe restarts the replica. Errors from an API server are the same for every
replica and after every restart: they are reported in other ways and do not count, nor does anything while the API
server is unreachable.
"""

import time
from collections.abc import Callable, Collection, Iterable

from prometheus_client import Counter

from agent.base.metrics import REGISTRY
from agent.kube.errors import StatusError
from agent.kube.informer import Informer
from agent.runtime.informers import SILENT_SECONDS
from agent.runtime.supervisor import Supervisor
from agent.runtime.watchdog import Watchdog

STAND_DOWNS = Counter(
    "flotilla_stand_downs_total",
    "How often this replica gave its lease back because something kept it from its work.",
    registry=REGISTRY,
)

_WELL_SECONDS = 600.0
"""Seconds without trouble after which earlier trouble no longer counts."""
_MOST_DOUBLINGS = 6
_DEAF_SECONDS = 3 * SILENT_SECONDS
"""Seconds of silence after which a watch counts as dead even though it has been restarted."""


class Vitals:
    """Checks the watches of the replica's own API server, tasks, and controllers."""

    def __init__(
        self, watches: Iterable[Informer], supervisors: Collection[Supervisor], controllers: Collection[Watchdog]
    ) -> None:
        self._watches = watches
        self._supervisors = supervisors
        self._controllers = controllers

    def trouble(self, patience: float) -> str:
        """Return the problems that have stopped the replica's work for `patience` seconds; empty for none."""
        now = time.monotonic()
        found = [words for informer in self._watches if (words := _unheard(informer, now, patience))]
        for supervisor in self._supervisors:
            found += [f"{name} fails again and again: {why}" for name, why in supervisor.failing_for(patience).items()]
        found += [words for each in self._controllers if (words := each.trouble())]
        return "; ".join(found)


def _unheard(informer: Informer, now: float, patience: float) -> str:
    if isinstance(informer.error, StatusError):
        return ""
    since = informer.hearing.failing_since
    if informer.error is not None and since is not None and now - since >= patience:
        return f"{informer.kind.plural} cannot be watched: {informer.error}"
    if now - informer.hearing.heard > _DEAF_SECONDS:
        return f"the watch of {informer.kind.plural} has heard nothing for {now - informer.hearing.heard:.0f} s"
    return ""


class Judgement:
    """Decides when a leader releases the lease. `patience` is in seconds, and doubles each time without success."""

    def __init__(self, patience: float) -> None:
        self.hopeless = ""
        """Problem that remained after releasing leadership; empty if there is none."""
        self._patience = patience
        self._downs = 0
        self._troubled = 0.0

    def stands_down(self, trouble: Callable[[float], str], now: float) -> str:
        """Return the reason to release leadership now; empty if there is none. `now` is monotonic time in seconds."""
        if not trouble(self._patience):
            if self._downs and now - self._troubled > _WELL_SECONDS:
                self._downs, self.hopeless = 0, ""
            return ""
        self._troubled = now
        lasting = trouble(self._patience * 2 ** min(self._downs, _MOST_DOUBLINGS))
        if lasting:
            if self._downs:
                self.hopeless = lasting
            self._downs += 1
        return lasting
