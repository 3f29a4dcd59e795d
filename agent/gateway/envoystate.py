"""What Envoy has said of itself lately: whether it takes connections, and what of its files it refuses."""

import math
import time

from agent.gateway.admin import Admin, Refusals, Stats
from agent.model.abridged import abridged
from agent.model.envoycounters import INGRESS

SILENT_SECONDS = 5.0
"""An Envoy that has said nothing for so long is not called any more: others take less to leave out one of a peer."""
_SHOWN = 3


class EnvoyState:
    """An Envoy, as it answers."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._answers = self._took = False
        self._heard_at = -math.inf
        self._asked: object = None
        self.refusals = Refusals()

    async def look(self) -> Stats | None:
        """Ask it; None while it does not answer."""
        stats = await self._admin.stats()
        self._answers = stats is not None
        if stats is None:
            self._took = self._took and not self._admin.gone
            return None
        await self._ask_what_it_refuses(stats)
        self._heard_at, self._took = time.monotonic(), stats.listens
        return stats

    async def _ask_what_it_refuses(self, stats: Stats) -> None:
        counts = [stats.rejected(listeners=each) for each in (False, True)]
        asked = (*counts, stats.version(listeners=True))
        if asked == self._asked:
            return
        found = await self._admin.refusals() if any(counts) else Refusals()
        if found is not None:
            self.refusals, self._asked = found, asked

    @property
    def reasons(self) -> str:
        """Why it refuses what it refuses, as far as that is listeners."""
        found = self.refusals.reasons
        return abridged([f"{name}: {why}" for name, why in sorted(found.items())], _SHOWN, "; ")

    @property
    def takes(self) -> bool:
        """Whether it takes connections; one that is only slow to answer does."""
        return self._took and time.monotonic() - self._heard_at < SILENT_SECONDS

    def problem(self) -> str | None:
        """Why it takes none of peers, None when it does."""
        if not self._answers:
            return "Envoy does not answer"
        if INGRESS in self.refusals.missing:
            return f"Envoy refuses to listen where peers call: {self.refusals.reasons[INGRESS]}"
        return None if self.takes else "Envoy takes no connections yet: it loads its files, and asks its peers"
