"""Leader election in a model with a clock of its own: slow API servers, lost requests and answers, standstills."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from agent.runtime import lease as lease_module
from agent.runtime import lease_record
from agent.runtime.lease import LeaderLease, LeaseTimes
from tests.examples import seeds
from tests.runtime.leaseserver import LeaseClient, LeaseServer, Way
from tests.runtime.virtualtime import VirtualLoop, run

TIMES = LeaseTimes()
LOSSES = ("request", "answer", "refused", "failed")


class Candidate:
    """A candidate that leads for as long as it may."""

    def __init__(
        self, server: LeaseServer, loop: VirtualLoop, name: str, way: Callable[[str], Way], times: LeaseTimes
    ) -> None:
        client: Any = LeaseClient(server, way)
        self.lease = LeaderLease(client, loop, "team", "lease", name, times)
        self.terms = 0

    async def work(self) -> None:
        """Lead."""
        self.terms += 1
        await asyncio.Event().wait()


class Election:
    """Candidates for one Lease, and the moments at which a candidate took it from another that might still write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: LeaseTimes = TIMES) -> None:
        self.loop, self.times = VirtualLoop(), times
        for module in (lease_module, lease_record):
            monkeypatch.setattr(module, "time", self.loop)
        self.server = LeaseServer()
        self.server.on_write = self._written
        self.candidates: dict[str, Candidate] = {}
        self.taken: list[tuple[float, str, str]] = []
        """Moments at which the Lease got another holder, with that one and the one before."""
        self.shared: list[tuple[float, str, str]] = []
        """Of these, those at which the one before might still write."""
        self._holder = ""

    def add(self, name: str, way: Callable[[str], Way]) -> Candidate:
        """Add a candidate.

        :param way: as for `LeaseClient`
        """
        self.candidates[name] = Candidate(self.server, self.loop, name, way, self.times)
        return self.candidates[name]

    def _written(self, holder: str) -> None:
        others = [each for name, each in self.candidates.items() if name != holder and each.lease.holds()]
        if holder and others:
            self.shared += [(self.loop.time(), holder, each.lease.identity) for each in others]
        if holder != self._holder:
            self.taken.append((self.loop.time(), holder, self._holder))
        self._holder = holder

    def run(self, seconds: float, *, rivals_after: float = 5.0, stops: Callable[[], None] | None = None) -> None:
        """Let the first candidate lead, and the others wait from a later moment on."""

        async def work() -> None:
            first, *others = self.candidates.values()
            tasks = [asyncio.create_task(first.lease.run(first.work))]
            await asyncio.sleep(rivals_after)
            tasks += [asyncio.create_task(each.lease.run(each.work)) for each in others]
            for _ in range(int(seconds)):
                await asyncio.sleep(1)
                if stops is not None:
                    stops()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        run(self.loop, work())


def losing(latency: float, there: float, number: int, lost: str, began: Callable[[], bool]) -> Callable[[str], Way]:
    """Return a function for `LeaseClient`: all requests have one latency, and one renewal is lost.

    :param there: share of the latency before a request is carried out
    :param number: number of the lost renewal, counted from when answers become slow
    """
    renewals = 0

    def way(method: str) -> Way:
        nonlocal renewals
        if not began():
            return Way()
        renewals += method == "patch"
        is_lost = method == "patch" and renewals == number
        return Way(latency * there, latency * (1 - there), lost if is_lost else "")

    return way


@pytest.mark.parametrize("latency", [0.1, 1.0, 2.0, 4.0, 6.0])
@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("there", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("number", [1, 2, 7])
def test_one_lost_renewal_costs_no_lease(
    latency: float, lost: str, there: float, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    election = Election(monkeypatch)
    leader = election.add("leader", losing(latency, there, number, lost, lambda: election.loop.time() >= 20))
    rival = election.add("rival", lambda method: Way())
    fenced: list[float] = []

    def look() -> None:
        if not leader.lease.holds():
            fenced.append(election.loop.time())

    election.run(60, stops=look)
    assert (leader.terms, rival.terms, fenced, election.shared) == (1, 0, [], [])


def test_a_leader_that_cannot_renew_releases_the_lease_as_soon_as_it_may_not_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a rival leads at once, and the leader is hardly ever seen to be fenced while its work runs."""
    election = Election(monkeypatch)

    def way(method: str) -> Way:
        renews = method != "get" and election.candidates["leader"].lease.holds()
        is_over = len(election.taken) > 1
        return Way(lost="refused" if election.loop.time() > 20 and (renews or is_over) else "")

    election.add("leader", way)
    election.add("rival", lambda method: Way())
    election.run(60)
    assert [holder for _, holder, _ in election.taken][:3] == ["leader", "", "rival"]
    released, rival = election.taken[1][0], election.taken[2][0]
    assert rival < released + TIMES.retry
    assert election.shared == []


@pytest.mark.parametrize("latency", [0.1, 3.0, 6.0, 9.0])
@pytest.mark.parametrize("there", [0.0, 0.5, 1.0])
def test_a_leader_that_is_cut_off_stops_writing_before_another_leads(
    latency: float, there: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    election = Election(monkeypatch)

    def way(method: str) -> Way:
        if election.loop.time() > 50:
            return Way(lost="request")
        return Way(latency * there, latency * (1 - there)) if election.loop.time() > 20 else Way()

    election.add("leader", way)
    rival = election.add("rival", lambda method: Way())
    election.run(90)
    assert (rival.terms, election.shared) == (1, [])


def test_a_duration_that_is_no_whole_number_of_seconds_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    election = Election(monkeypatch, LeaseTimes(duration=12.4, renew=12.3))
    election.add("leader", lambda method: Way(lost="request" if election.loop.time() > 20 else ""))
    rival = election.add("rival", lambda method: Way())
    election.run(60)
    assert (rival.terms, election.shared) == (1, [])


class Links:
    """Links of candidates: each has a latency of its own, loses requests and answers, and is cut for a while."""

    def __init__(self, chance: random.Random, election: Election) -> None:
        self.worst = chance.choice((1.0, 6.0, 12.0))
        self._chance, self._election = chance, election
        self._loss = chance.choice((0.0, 0.05, 0.3))
        self._cut_until: dict[str, float] = {}

    def way(self, name: str) -> Callable[[str], Way]:
        """Return a function for `LeaseClient`."""
        usual = self._chance.choice((0.05, self._chance.uniform(0, self.worst)))
        share = self._chance.choice((0.0, 0.5, 1.0))

        def way(method: str) -> Way:
            if self._election.loop.time() < self._cut_until.get(name, 0.0):
                return Way(lost="request")
            lost = self._chance.choice(LOSSES) if self._chance.random() < self._loss else ""
            latency = usual * self._chance.uniform(0.9, 1.1)
            return Way(latency * share, latency * (1 - share), lost)

        return way

    def disturb(self) -> None:
        """Cut a link, or let the process stand still."""
        if self._chance.random() < 0.03:
            name = self._chance.choice([*self._election.candidates])
            self._cut_until[name] = self._election.loop.time() + self._chance.uniform(5, 40)
        if self._chance.random() < 0.01:
            self._election.loop.stand_still(self._chance.uniform(0, 20))


@pytest.mark.parametrize("seed", seeds(60))
def test_no_two_leaders_may_write_at_the_same_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    election = Election(monkeypatch)
    links = Links(random.Random(seed), election)
    for name in "abc":
        election.add(name, links.way(name))
    election.run(600, stops=links.disturb)
    assert election.shared == []
    assert links.worst > 6 or any(each.terms for each in election.candidates.values())
