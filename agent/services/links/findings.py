"""Reports of network drivers about Services in each cluster, requested concurrently and cached briefly."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.clusters.health.record import is_silence
from agent.drivers.driver import BY_ADDRESSES, Driver, Joining, Place
from agent.kube.errors import Forbidden, KubeError
from agent.kube.store import Key
from agent.model.servicelinks import AWAY, Finding
from agent.runtime.controller import Controller

FRESH_SECONDS = 2.0
"""Seconds for which a finding is fresh: a Service is checked several times a second while its pods change."""
ANSWER_SECONDS = 3.0
SILENT_SECONDS = 30.0
"""Seconds for which a cluster that did not answer is not asked."""
FIRST_SECONDS = 1.0
"""Longest seconds for which a status waits for the first answer of a cluster."""
_TOGETHER_SECONDS = 0.1
"""Seconds in which first answers of many clusters are collected into one status."""
_OFFERED, _JOINED, _ALL = "offered", "joined", "connected"


class Ask(NamedTuple):
    """One driver, about one Service in one cluster."""

    node: str
    reason: str
    service: Key
    original: Key
    """Service whose links report it: callers in another namespace use a Service of their own."""


class About(NamedTuple):
    """Question about the Service of an Ask."""

    what: str
    source: str = ""
    """Cluster whose endpoints the request is about, for drivers that distinguish sources."""


@dataclass
class _Answers:
    """Answers to one Ask."""

    place: Place
    until: float = 0.0
    """Time until which the answer is fresh; an older one counts until there is a new one."""
    since: dict[About, float] = field(default_factory=dict)
    """Time of the first request for each."""
    wanted: dict[About, str] = field(default_factory=dict)
    """Next request, with the source that the driver is given."""
    known: dict[About, Finding] = field(default_factory=dict)


class ServiceFindings:
    """Findings of one Service during one reconciliation."""

    def __init__(self, all: "DriverFindings", service: Key) -> None:
        self._all = all
        self.service = service
        """Service whose links report the finding."""
        self.expected = False
        """Whether a first answer to some question is pending."""
        self._seen: dict[tuple[str, str, str, Place], Finding] = {}
        """Cached findings: with 100 clusters each is looked up for 99 others."""

    async def connected(
        self, reason: str, place: Place | None, source: str, theirs: Place | None = None
    ) -> Finding | None:
        """Return whether callers in a cluster reach endpoints in the source by this driver; `addresses` is not asked.

        :param theirs: the Service in the source, None if that is not asked
        """
        driver = self._all.drivers.get(reason)
        if driver is None or reason == BY_ADDRESSES:
            return None
        found = await self._of(driver, place, _ALL, source)
        if reason in self._all.joining and (found is None or found.status != "False"):
            joined = await self._of(driver, theirs, _JOINED, source)
            if joined is not None and joined.status != "True":
                return joined
        return found

    async def offered(self, reason: str, place: Place | None) -> Finding | None:
        """Return the state of the endpoints that one cluster offers by this driver."""
        driver = self._all.drivers.get(reason)
        return await self._of(driver, place, _OFFERED, "") if driver is not None else None

    def away(self, node: str) -> None:
        """Forget the answers of an unreachable cluster, so that it is asked at once when it returns."""
        self._all.away(self.service, node)

    async def _of(self, driver: Driver, place: Place | None, what: str, source: str) -> Finding | None:
        if place is None:
            return None
        of_source = source if what == _ALL and driver.tells_sources else ""
        key = (driver.reason, what, of_source, place)
        if (found := self._seen.get(key)) is None:
            if driver.asks:
                ask = Ask(place.node, driver.reason, place.service, self.service)
                found = self._all.silence(place) or self._known(ask, place, About(what, of_source), source)
            else:
                found = await _told(driver, place, what, source)
            self._seen[key] = found
        return found

    def _known(self, ask: Ask, place: Place, about: About, source: str) -> Finding:
        answers = self._all.want(ask, place, about, source)
        if about in answers.known:
            return answers.known[about]
        self.expected = self.expected or answers.since[about] + FIRST_SECONDS > _now()
        return Finding("Unknown", AWAY, f"{place.title}: no answer yet")


class DriverFindings(Controller[Ask]):
    """Findings of all Services. Keys use the lane of their cluster, so that a silent one delays no other."""

    name = "linkfindings"
    workers = 64
    lane_width = 4

    def __init__(self, drivers: Mapping[str, Driver], changed: Callable[[Key, float], None]) -> None:
        """:param changed: called with a Service whose findings have changed, and the seconds until a re-check"""
        super().__init__()
        self.drivers = drivers
        self.joining = {reason for reason, driver in drivers.items() if isinstance(driver, Joining)}
        """Drivers whose networks clusters have to join, by their reasons."""
        self._changed = changed
        self._silent: dict[str, tuple[float, str]] = {}
        """Times until which silent clusters are not asked, and the reasons, by virtual node."""
        self._services: dict[Key, dict[Ask, _Answers]] = {}

    def lane(self, key: Ask) -> str:
        """Use one lane per cluster, so that an unresponsive one delays no other."""
        return key.node

    def of(self, service: Key) -> ServiceFindings:
        """Return the findings of one Service."""
        return ServiceFindings(self, service)

    def want(self, ask: Ask, place: Place, about: About, source: str) -> _Answers:
        """Return the cached answers, and request new ones when they are stale."""
        now, known = _now(), self._services.setdefault(ask.original, {})
        answers = known.get(ask)
        if answers is None or answers.place != place:
            answers = known[ask] = _Answers(place)
        answers.since.setdefault(about, now)
        answers.wanted[about] = source
        self.queue.add_after(ask, answers.until - now if about in answers.known else 0.0)
        return answers

    async def reconcile(self, key: Ask) -> float | None:
        """Ask one driver about one Service in one cluster, for all pending questions."""
        answers = self._answers(key)
        if answers is None:
            return None
        wanted, answers.wanted = answers.wanted, {}
        is_first, changed = not answers.known, False
        for about, source in wanted.items():
            found = await self._ask(self.drivers[key.reason], answers.place, about, source)
            changed = changed or answers.known.get(about) != found
            answers.known[about] = found
        answers.until = _now() + FRESH_SECONDS
        if changed and self._answers(key) is answers:
            self._changed(key.original, _TOGETHER_SECONDS if is_first else 0.0)
        return None

    async def _ask(self, driver: Driver, place: Place, about: About, source: str) -> Finding:
        if silence := self.silence(place):
            return silence
        now = _now()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await _told(driver, place, about.what, source)
        except Forbidden as error:
            return Finding("False" if about.what == _OFFERED else "Unknown", "Forbidden", str(error))
        except (TimeoutError, KubeError) as error:
            if isinstance(error, KubeError) and not is_silence(error):
                return Finding("Unknown", "Pending", f"{place.title}: {error}")
            self._silent[place.node] = (now + SILENT_SECONDS, str(error) or "no answer")
            return Finding("Unknown", AWAY, f"{place.title}: {self._silent[place.node][1]}")

    def silence(self, place: Place) -> Finding | None:
        """Return the finding for a silent cluster during its pause; None if it can be asked."""
        until, why = self._silent.get(place.node, (0.0, ""))
        return Finding("Unknown", AWAY, f"{place.title}: {why}") if until > _now() else None

    def _answers(self, key: Ask) -> _Answers | None:
        return self._services.get(key.original, {}).get(key)

    def forget_service(self, service: Key) -> None:
        """Forget a Service without links."""
        self._services.pop(service, None)

    def forget_node(self, node: str) -> None:
        """Forget a removed target."""
        for service in self._services:
            self.away(service, node)

    def away(self, service: Key, node: str) -> None:
        """Forget the findings about a Service in a cluster, and that the cluster was silent."""
        self._silent.pop(node, None)
        known = self._services.get(service, {})
        for ask in [each for each in known if each.node == node]:
            del known[ask]


async def _told(driver: Driver, place: Place, what: str, source: str) -> Finding:
    """Return the driver's answer. Raises KubeError."""
    if what == _OFFERED:
        return await driver.offered(place)
    if what == _JOINED and isinstance(driver, Joining):
        return await driver.joined(place) or Finding("True", "Connected")
    return await driver.connected(place, source)


def _now() -> float:
    return asyncio.get_running_loop().time()
