"""Leaders whose API server takes up to 80 % of the lease duration to answer, with the default times."""

import asyncio
import base64
import contextlib
import datetime
import time
from collections.abc import AsyncIterator, Callable, Iterable

import msgspec
import pytest
from aiohttp import web

from agent.api.kinds import MUTATING_WEBHOOKS
from agent.base.clock import SystemClock
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import NotFound
from agent.kube.session import Session
from agent.runtime.lease import LeaderLease, LeaseTimes
from agent.runtime.renewals import Moment, Renewals
from hack.lab.sandbox import Cluster
from hack.lab.sandbox.certificates import Authority
from tests.e2e.laterwebhook import serving
from tests.kube.relay import Relay
from tests.waiting import until
from tests.webhook.replica import host_facing

pytestmark = pytest.mark.full("Each waits for 42 s; tests of the state of renewals keep the rule.")

TIMES = LeaseTimes()
LATENCIES = tuple(range(1, 10))
"""Latencies of the API server in seconds."""


class Candidate:
    """Candidate for the lease of one latency that notes each loss."""

    def __init__(self, client: Client, namespace: str, latency: int, identity: str) -> None:
        self.latency = latency
        self.lease = LeaderLease(client, SystemClock(), namespace, f"slow-{latency}", identity, TIMES)
        self.terms = 0
        self.fenced = 0.0
        """Seconds during which a leader could not write."""

    async def work(self) -> None:
        self.terms += 1
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.02)
            now = time.monotonic()
            self.fenced += 0 if self.lease.holds() else now - last
            last = now

    def __str__(self) -> str:
        return f"{self.lease.identity}, {self.latency} s: {self.terms} terms, {self.fenced:.2f} s fenced"


@contextlib.asynccontextmanager
async def running(candidates: Iterable[Candidate]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.lease.run(each.work)) for each in candidates]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def keep(leaders: list[Candidate], rivals: list[Candidate], slow: Callable[[], None]) -> None:
    """Start the leaders, slow down their API server, and let rivals wait for more than three lease durations."""
    async with running(leaders):
        await until(lambda: all(each.lease.leading for each in leaders))
        slow()
        async with running(rivals):
            await asyncio.sleep(3.5 * TIMES.duration)
            assert [str(each) for each in leaders if each.terms != 1 or each.fenced] == []
            assert [str(each) for each in rivals if each.terms] == []


@pytest.mark.cluster
async def test_a_leader_keeps_its_lease_however_late_all_answers_are(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        leaders, relays = [], []
        for latency in LATENCIES:
            relay = await stack.enter_async_context(Relay.started(load(str(cluster.kubeconfig))))
            session = await stack.enter_async_context(Session(relay.connection, timeout=10.0))
            leaders.append(Candidate(Client(session), namespace, latency, "leader"))
            relays.append(relay)

        def slow() -> None:
            for relay, latency in zip(relays, LATENCIES, strict=True):
                relay.delay(latency)

        rivals = [Candidate(client, namespace, latency, "rival") for latency in LATENCIES]
        await keep(leaders, rivals, slow)
        for relay in relays:
            relay.delay(0)


@contextlib.asynccontextmanager
async def holding_up(
    cluster: Cluster, client: Client, namespace: str, delay: Callable[[str], float]
) -> AsyncIterator[None]:
    """Register a webhook that delays each write of a Lease by a number of seconds, by the Lease's name."""
    host = host_facing(cluster)
    authority = Authority("slow", datetime.datetime.now(datetime.UTC))

    async def answer(request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read())
        await asyncio.sleep(delay(asked["request"]["name"]))
        response = {"uid": asked["request"]["uid"], "allowed": True}
        return web.json_response({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response})

    app = web.Application()
    app.router.add_post("/admit", answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    name = f"slow-{namespace}"
    try:
        await web.TCPSite(runner, host, 0, ssl_context=serving(authority, host)).start()
        bundle = base64.b64encode(authority.pair.certificate).decode()
        webhook = {
            "name": f"{name}.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://{host}:{runner.addresses[0][1]}/admit", "caBundle": bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["leases"],
                }
            ],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }
        await client.create(MUTATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [webhook]})
        yield
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(MUTATING_WEBHOOKS, name)
        await runner.cleanup()


@pytest.mark.cluster
async def test_a_leader_keeps_its_lease_however_long_admission_holds_up_its_writes(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """Gatekeeper delays writes this way if its webhooks do not answer; reads stay fast."""
    slow = False

    def delay(name: str) -> float:
        return int(name.rpartition("-")[2]) if slow else 0.0

    def begin() -> None:
        nonlocal slow
        slow = True

    leaders, rivals = (
        [Candidate(client, namespace, latency, identity) for latency in LATENCIES] for identity in ("leader", "rival")
    )
    async with holding_up(cluster, client, namespace, delay):
        await keep(leaders, rivals, begin)
        slow = False


@pytest.mark.cluster
async def test_a_lease_can_be_taken_from_an_api_server_that_is_slow_already(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    leader, behind = Candidate(client, namespace, 9, "leader"), Candidate(client, namespace, 8, "behind")
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        Session(relay.connection, timeout=10.0) as session,
        holding_up(cluster, client, namespace, lambda name: 9 if name == "slow-9" else 0.0),
    ):
        behind.lease = LeaderLease(Client(session), SystemClock(), namespace, "slow-8", "behind", TIMES)
        relay.delay(8)
        both = (leader, behind)
        async with running(both):
            await until(lambda: all(each.lease.leading for each in both))
            await asyncio.sleep(2.5 * TIMES.duration)
            assert [str(each) for each in both if each.terms != 1 or each.fenced] == []
        relay.delay(0)


def at(seconds: float) -> Moment:
    return Moment(seconds, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds))


def test_an_answered_renewal_counts_from_when_it_was_sent() -> None:
    renewals = Renewals(at(0))
    renewals.sent("one", at(1))
    assert renewals.moment == at(0)
    assert (renewals.tip, renewals.latest) == ("one", at(1))
    renewals.written("one")
    assert (renewals.moment, renewals.tip, renewals.pending) == (at(1), "one", False)


def test_a_renewal_that_a_later_read_does_not_show_counts_from_that_read() -> None:
    renewals = Renewals(at(0))
    renewals.rebase("before")
    renewals.sent("one", at(1))
    assert renewals.seen("before", at(5))
    assert renewals.moment == at(0), "nothing has been written yet"
    renewals.written("one")
    assert renewals.moment == at(5)


def test_a_read_that_shows_a_later_renewal_confirms_those_before() -> None:
    renewals = Renewals(at(0))
    for number, mark in enumerate(("one", "two", "three"), 1):
        renewals.sent(mark, at(number))
    assert renewals.seen("two", at(7))
    assert (renewals.moment, renewals.tip) == (at(2), "three")
    renewals.written("one")
    assert renewals.moment == at(2), "an answer that comes late changes nothing"
    renewals.written("three")
    assert renewals.moment == at(7)


def test_the_next_renewal_builds_on_none_that_has_failed_and_an_unknown_state_proves_nothing() -> None:
    renewals = Renewals(at(0))
    renewals.sent("one", at(1))
    renewals.written("one")
    renewals.sent("two", at(2))
    assert not renewals.seen("usurped", at(3))
    renewals.failed("two")
    assert (renewals.tip, renewals.moment) == ("one", at(1))
