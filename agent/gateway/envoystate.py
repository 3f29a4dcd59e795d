"""State of Envoy at its last answers: whether it accepts connections, and the listeners that it refuses."""

import math
import time

from agent.gateway.admin import Admin, Refusals, Stats
from agent.model.abridged import abridged
from agent.model.envoycounters import INGRESS

SILENT_SECONDS = 5.0
"""Seconds of silence after which callers no longer use this Envoy. Other gateways need less time to remove a
silent peer.
"""
_SHOWN = 3


class EnvoyState:
    """State of one Envoy, by its answers."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._answers = self._took = False
        self._heard_at = -math.inf
        self._asked: object = None
        self.refusals = Refusals()

    async def look(self) -> Stats | None:
        """Read Envoy's state; return None if it does not answer."""
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
        """Reasons for refused listeners."""
        found = self.refusals.reasons
        return abridged([f"{name}: {why}" for name, why in sorted(found.items())], _SHOWN, "; ")

    @property
    def takes(self) -> bool:
        """Whether Envoy accepts connections, which it does even if it is slow to answer."""
        return self._took and time.monotonic() - self._heard_at < SILENT_SECONDS

    def problem(self) -> str | None:
        """Return the reason why it accepts no connections of peers, None if it does."""
        if not self._answers:
            return "Envoy does not answer"
        if INGRESS in self.refusals.missing:
            return f"Envoy refuses to listen where peers call: {self.refusals.reasons[INGRESS]}"
        return None if self.takes else "Envoy takes no connections yet: it loads its files, and asks its peers"
