"""Leader election between contenders on a real API server."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS, LEASES, Kind
from agent.base.clock import SystemClock, micro_stamp
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import Deposed, NotFound
from agent.kube.session import Session
from agent.runtime.lease import LeaderLease, LeaseTimes
from hack.lab.sandbox import Cluster
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster

TIMES = LeaseTimes(duration=2.0, renew=1.4, retry=0.1)
NAME = "test-lease"


class Contender:
    """Contender for the lease that records when its work starts and ends."""

    leading_now: set[str]

    def __init__(
        self, client: Client, namespace: str, identity: str, others: set[str], times: LeaseTimes = TIMES
    ) -> None:
        self.lease = LeaderLease(client, SystemClock(), namespace, NAME, identity, times)
        self.leading_now = others
        self.terms = 0
        self.ends: list[int] = []

    async def work(self) -> None:
        assert not self.leading_now, "two lead at once"
        self.leading_now.add(self.lease.identity)
        self.terms += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            self.leading_now.discard(self.lease.identity)
            self.ends.append(self.terms)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.lease.run(self.work))
        try:
            yield task
        finally:
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            assert isinstance(outcome, asyncio.CancelledError), outcome


async def read(client: Client, namespace: str) -> dict[str, Any]:
    spec: dict[str, Any] = (await client.get(LEASES, NAME, namespace))["spec"]
    return spec


async def test_of_two_contenders_one_leads_and_a_release_hands_over_at_once(client: Client, namespace: str) -> None:
    leading: set[str] = set()
    endless = LeaseTimes(duration=3600, renew=60, retry=0.1)
    one, two = (Contender(client, namespace, name, leading, endless) for name in ("one", "two"))
    async with two.running():
        await until(lambda: leading == {"two"})
        async with one.running():
            await asyncio.sleep(0.5)
            assert leading == {"two"}
            assert not one.lease.leading
            assert one.lease.contact
    spec = await read(client, namespace)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    async with one.running():
        await until(lambda: leading == {"one"})
        assert (await read(client, namespace))["leaseTransitions"] == 1
    assert leading == set()


async def test_a_leader_cut_off_stops_before_another_takes_over(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    leading: set[str] = set()
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        Session(relay.connection, timeout=10.0) as session,
    ):
        cut_off = Contender(Client(session), namespace, "cut-off", leading)
        other = Contender(client, namespace, "other", leading)
        async with cut_off.running():
            await until(lambda: leading == {"cut-off"})
            async with other.running():
                await asyncio.sleep(0.3)
                relay.freeze()
                await until(lambda: leading == {"other"})
                assert not cut_off.lease.leading
                relay.mend()
                await asyncio.sleep(0.5)
                assert leading == {"other"}
                assert (await read(client, namespace))["holderIdentity"] == "other"
                relay.cut()
    assert (cut_off.terms, other.terms) == (1, 1)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_leader_whose_api_server_takes_long_for_each_answer_goes_on_leading(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        Session(relay.connection, timeout=10.0) as session,
    ):
        times = LeaseTimes(duration=5.0, renew=3.5, retry=0.1)
        contender = Contender(Client(session), namespace, "patient", set(), times)
        async with contender.running():
            await until(lambda: contender.lease.leading)
            # The time from one renewal to the next answer is two latencies and a pause.
            relay.delay(times.renew / 3)
            renewals = set[str]()

            async def renewed() -> bool:
                renewals.add((await read(client, namespace))["renewTime"])
                return len(renewals) == 4

            await until(renewed)
            assert contender.terms == 1


async def test_a_frozen_leader_ends_its_work_and_leads_again_afterwards(cluster: Cluster, namespace: str) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        Session(relay.connection, timeout=10.0) as session,
    ):
        contender = Contender(Client(session), namespace, "frozen", set())
        async with contender.running() as task:
            await until(lambda: contender.lease.leading)
            relay.freeze()
            await until(lambda: contender.ends == [1] and not contender.lease.leading)
            relay.cut()
            relay.mend()
            await until(lambda: contender.terms == 2)
            assert not task.done()


async def test_a_leader_that_sees_another_holder_stops_at_once(client: Client, namespace: str) -> None:
    contender = Contender(client, namespace, "one", set())
    async with contender.running():
        await until(lambda: contender.lease.leading)
        usurper = {"spec": {"holderIdentity": "usurper", "leaseDurationSeconds": 1}}
        await client.patch(LEASES, NAME, usurper, namespace)
        await until(lambda: contender.ends)
        assert (await read(client, namespace))["holderIdentity"] == "usurper"
        await until(lambda: contender.terms == 2)
        assert (await read(client, namespace))["holderIdentity"] == "one"


async def test_a_holder_that_comes_back_under_its_own_name_leads_at_once(client: Client, namespace: str) -> None:
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 3600, "leaseTransitions": 4}
    manifest = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": {"name": NAME}, "spec": spec}
    await client.create(LEASES, manifest, namespace)
    contender = Contender(client, namespace, "one", set())
    async with contender.running():
        await until(lambda: contender.lease.leading)
        assert (await read(client, namespace))["leaseTransitions"] == 4


async def test_a_lease_whose_holder_is_gone_is_taken_when_its_time_is_up_however_seldom_it_is_looked_at(
    client: Client, namespace: str
) -> None:
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 1}
    manifest = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": {"name": NAME}, "spec": spec}
    await client.create(LEASES, manifest, namespace)
    seldom = LeaseTimes(duration=1.0, renew=0.6, retry=3600)
    contender = Contender(client, namespace, "one", set(), seldom)
    async with contender.running():
        await until(lambda: contender.lease.leading)


class Failing(Client):
    """Work that fails with an unexpected error while enabled."""

    broken = False

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        if self.broken:
            raise RuntimeError("descriptor 7 is in use")
        return await super().get(kind, name, namespace)

    async def patch_raw(self, *given: Any, **how: Any) -> bytes:
        if self.broken:
            raise RuntimeError("descriptor 7 is in use")
        return await super().patch_raw(*given, **how)


async def test_an_unforeseen_error_costs_the_lease_and_not_the_process(cluster: Cluster, namespace: str) -> None:
    leading: set[str] = set()
    async with Session(load(str(cluster.kubeconfig))) as session:
        client = Failing(session)
        one = Contender(client, namespace, "one", leading)
        async with one.running() as task:
            await until(lambda: leading == {"one"})
            client.broken = True
            await until(lambda: not leading)
            client.broken = False
            await until(lambda: leading == {"one"})
            assert not task.done()


class Jumping(SystemClock):
    """Wall clock that jumps, as on a machine that resumes after a pause."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


def stand_still(seconds: float) -> None:
    """Simulate a suspended process: nothing runs, then everything due runs at once."""
    time.sleep(seconds)


async def test_a_leader_that_stood_still_writes_nothing_of_what_it_had_begun(client: Client, namespace: str) -> None:
    lease = LeaderLease(client, SystemClock(), namespace, NAME, "one", TIMES)
    outcomes: list[Any] = []
    terms: list[str] = []

    async def make(name: str) -> None:
        await client.create(CONFIGMAPS, {"metadata": {"name": name}}, namespace)

    async def work() -> None:
        await make(f"term-{len(terms)}")
        terms.append("begun")
        if not outcomes:
            stand_still(TIMES.renew + 0.2)
            # One write by the task itself, one by a task that it starts.
            tries = (make("after"), asyncio.create_task(make("later")))
            outcomes.extend(await asyncio.gather(*tries, return_exceptions=True))
        await asyncio.Event().wait()

    task = asyncio.create_task(lease.run(work))
    try:
        await until(lambda: len(terms) == 2)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [type(each) for each in outcomes] == [Deposed, Deposed]
    made = {each["metadata"]["name"] for each in await client.list(CONFIGMAPS, namespace)}
    assert made - {"kube-root-ca.crt"} == {"term-0", "term-1"}


async def test_a_time_of_day_that_jumps_closes_the_way_until_the_lease_is_renewed(
    client: Client, namespace: str
) -> None:
    clock = Jumping()
    lease = LeaderLease(client, clock, namespace, NAME, "one", TIMES)
    seen: list[str] = []

    async def work() -> None:
        clock.ahead = timedelta(seconds=60)
        with pytest.raises(Deposed):
            await client.create(CONFIGMAPS, {"metadata": {"name": "at-once"}}, namespace)
        while not seen:
            with contextlib.suppress(Deposed):
                await client.create(CONFIGMAPS, {"metadata": {"name": "renewed"}}, namespace)
                seen.append("renewed")
            await asyncio.sleep(0.05)
        await asyncio.Event().wait()

    task = asyncio.create_task(lease.run(work))
    try:
        await until(lambda: bool(seen))
        assert lease.leading
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "at-once", namespace)


async def test_a_leader_that_ends_its_work_itself_lets_another_lead(client: Client, namespace: str) -> None:
    leading: set[str] = set()
    endless = LeaseTimes(duration=3600, renew=1.4, retry=0.5)
    one, two = (Contender(client, namespace, name, leading, endless) for name in ("one", "two"))
    stands_down = asyncio.Event()

    async def work() -> None:
        working = asyncio.ensure_future(one.work())
        await stands_down.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    task = asyncio.create_task(one.lease.run(work))
    await until(lambda: leading == {"one"})
    async with two.running():
        stands_down.set()
        await until(lambda: leading == {"two"})
        stands_down.clear()
        assert not one.lease.leading
    # No other contender renews it.
    await until(lambda: one.terms == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_leader_that_loses_its_cancellation_is_cancelled_again_and_leads_again(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.base.cancelling.AGAIN_SECONDS", 0.5)
    terms = 0

    async def deaf() -> None:
        nonlocal terms
        terms += 1
        lost = False
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if lost or terms > 1:
                    raise
                lost = True

    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        Session(relay.connection, timeout=10.0) as session,
    ):
        lease = LeaderLease(Client(session), SystemClock(), namespace, NAME, "deaf", TIMES)
        task = asyncio.create_task(lease.run(deaf))
        await until(lambda: terms == 1)
        relay.cut()
        await until(lambda: not lease.leading)
        relay.mend()
        await until(lambda: terms == 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_remembers_when_nobody_led_however_often_it_changes_hands(client: Client, namespace: str) -> None:
    renewed = SystemClock().now() - timedelta(hours=1)
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_stamp(renewed)}
    await client.create(LEASES, {"metadata": {"name": NAME}, "spec": spec}, namespace)
    for name in ("one", "two"):
        contender = Contender(client, namespace, name, set())
        async with contender.running():
            await until(lambda lease=contender.lease: lease.leading)
            started = time.monotonic()
            await until(lambda lease=contender.lease, moment=started: lease.renewed_since(moment))
            absence, *others = contender.lease.absences
            assert absence.began == renewed + timedelta(seconds=TIMES.duration)
            assert absence.ended <= SystemClock().now()
            assert others == []


async def test_a_leader_that_its_cluster_has_forgotten_learns_it_when_it_renews(client: Client, namespace: str) -> None:
    contender = Contender(client, namespace, "one", set())
    async with contender.running():
        await until(lambda: contender.lease.leading)
        assert contender.lease.absences == ()
        # The state in the backup.
        renewed = SystemClock().now() - timedelta(hours=1)
        body = {"spec": {"renewTime": micro_stamp(renewed)}}

        async def forgotten() -> bool:
            # A renewal in flight may arrive later.
            await client.patch(LEASES, NAME, body, namespace)
            await asyncio.sleep(3 * TIMES.retry)
            return bool(contender.lease.absences)

        await until(forgotten)
        assert contender.lease.absences[0].began == renewed + timedelta(seconds=TIMES.duration)
        assert contender.terms == 1, "it goes on leading"
