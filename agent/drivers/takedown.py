"""What a driver has made stays a while where another one takes over: until then that leads there, or never does.

Drivers that tell addresses or gateways see to it for each pair of clusters themselves (`handover`); others share a
Service as a whole, and whoever follows them cannot always tell whether it leads anywhere: these have their time.
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
        """By cluster and Service, then by reason of the driver: None while it is the driver still."""

    def has(self, place: Place, reason: str) -> None:
        """It is a driver of the Service in a cluster."""
        if reason not in _HAND_OVER:
            self._had.setdefault((place.node, place.service), {})[reason] = None

    def left(self, place: Place, reason: str, wanted: set[str], now: float) -> float:
        """For how many seconds more a driver stays that is none any more.

        :param wanted: those that there are instead
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
        """A Service is no longer in a cluster, or no longer shared."""
        self._had.pop((node, service), None)

    def forget_cluster(self, node: str) -> None:
        """A target is no more."""
        self._had = {key: had for key, had in self._had.items() if key[0] != node}
