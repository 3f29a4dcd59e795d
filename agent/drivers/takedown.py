"""Delayed removal of a driver's objects while another driver takes over, until that works or a deadline has passed.

The drivers for addresses and gateways hand over each pair of clusters themselves (`handover`). Other drivers share a
Service as a whole, and their successor cannot always check whether it routes traffic: they stay for a fixed time.
"""

from agent.api.names.links import BY_GATEWAY
from agent.drivers import handover
from agent.drivers.driver import BY_ADDRESSES, Place
from agent.kube.store import Key
from agent.model.links import REASONS

NOBODY = REASONS["none"]
_HAND_OVER = (BY_ADDRESSES, BY_GATEWAY, NOBODY)


class Takedown:
    """Drivers that Services have had in clusters, as far as this process has seen, and until when they stay."""

    def __init__(self) -> None:
        self._had: dict[tuple[str, Key], dict[str, float | None]] = {}
        """By cluster and Service, then by reason of the driver: time of removal, None while the driver is in use."""

    def has(self, place: Place, reason: str) -> None:
        """Record that a driver is in use for the Service in a cluster."""
        if reason not in _HAND_OVER:
            self._had.setdefault((place.node, place.service), {})[reason] = None

    def left(self, place: Place, reason: str, wanted: set[str], now: float) -> float:
        """Return for how many seconds a driver that is no longer used stays; 0 for no longer.

        :param wanted: reasons of the drivers that replace it
        """
        had = self._had.get((place.node, place.service), {})
        if reason not in had:
            return 0.0
        ends = had[reason]
        if ends is None:
            ends = had[reason] = now + handover.KEEP_SECONDS
        if wanted - {NOBODY} and now < ends:
            return ends - now
        del had[reason]
        if not had:
            del self._had[place.node, place.service]
        return 0.0

    def forget_service(self, node: str, service: Key) -> None:
        """Drop the records of a Service that was deleted from a cluster, or is no longer shared."""
        self._had.pop((node, service), None)

    def forget_cluster(self, node: str) -> None:
        """Drop the records of a removed target."""
        self._had = {key: had for key, had in self._had.items() if key[0] != node}
