"""What network drivers report of a Service in each cluster, kept for a moment."""

import asyncio
from collections.abc import Mapping

from agent.drivers.driver import BY_ADDRESSES, Driver, Place
from agent.kube.errors import Forbidden, KubeError
from agent.kube.store import Key
from agent.model.servicelinks import AWAY, Finding

FRESH_SECONDS = 2.0
"""For how long a finding counts: while pods of a Service come and go it is looked at several times in a second."""
ANSWER_SECONDS = 3.0
SILENT_SECONDS = 30.0
"""For how long a cluster that gave no answer is not asked."""


class ServiceFindings:
    """Findings of one Service: each driver is asked once about each cluster, of sources that it tells apart each time.

    A cluster that gives no answer in time is not asked for a while: others do not wait for it.
    """

    def __init__(self, drivers: Mapping[str, Driver], silent: dict[str, float], until: float) -> None:
        self.until = until
        self._drivers = drivers
        self._silent = silent
        self._known: dict[tuple[str, bool, Place], Finding] = {}

    async def connected(self, reason: str, place: Place | None, source: str) -> Finding | None:
        """Whether callers in one cluster reach endpoints in the source by this driver; of addresses none is asked."""
        return await self._of(reason, place, source) if reason != BY_ADDRESSES else None

    async def offered(self, reason: str, place: Place | None) -> Finding | None:
        """What has become of the endpoints that one cluster offers by this driver."""
        return await self._of(reason, place, None)

    async def _of(self, reason: str, place: Place | None, source: str | None) -> Finding | None:
        """With a source, whether its endpoints are reached in a place; without, what that offers."""
        if place is None or reason not in self._drivers:
            return None
        driver, key = self._drivers[reason], (reason, source is None, place)
        if source is not None and driver.tells_sources:
            return await self._ask(driver, place, source)
        if key not in self._known:
            self._known[key] = await self._ask(driver, place, source)
        return self._known[key]

    async def _ask(self, driver: Driver, place: Place, source: str | None) -> Finding:
        now = asyncio.get_running_loop().time()
        if self._silent.get(place.node, now) > now:
            return Finding("Unknown", AWAY, f"{place.title}: no answer")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await (driver.offered(place) if source is None else driver.connected(place, source))
        except Forbidden as error:
            return Finding("False" if source is None else "Unknown", "Forbidden", str(error))
        except (TimeoutError, KubeError) as error:
            self._silent[place.node] = now + SILENT_SECONDS
            return Finding("Unknown", AWAY, f"{place.title}: {str(error) or 'no answer'}")


class DriverFindings:
    """Findings of all Services."""

    def __init__(self, drivers: Mapping[str, Driver]) -> None:
        self._drivers = drivers
        self._silent: dict[str, float] = {}
        """Until when clusters are not asked, by their virtual nodes."""
        self._services: dict[Key, ServiceFindings] = {}

    def of(self, service: Key) -> ServiceFindings:
        """Findings of one Service, new ones where those known have expired."""
        now = asyncio.get_running_loop().time()
        if (known := self._services.get(service)) is None or known.until <= now:
            known = self._services[service] = ServiceFindings(self._drivers, self._silent, now + FRESH_SECONDS)
        return known

    def valid_for(self, service: Key) -> float:
        """For how many seconds the findings of a Service still count."""
        known = self._services.get(service)
        return max(0.0, known.until - asyncio.get_running_loop().time()) if known is not None else 0.0

    def forget_service(self, service: Key) -> None:
        """A Service has no links any more."""
        self._services.pop(service, None)

    def forget_node(self, node: str) -> None:
        """A target is no more."""
        self._silent.pop(node, None)
