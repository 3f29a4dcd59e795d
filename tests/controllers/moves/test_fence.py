"""Fences between real clusters: renewal by the source, the stop by the target, and recovery once the link is back."""

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, EVENTS, LEASES, PODS
from agent.api.names import fencing
from agent.base.clock import SystemClock, micro_stamp
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.store import Object
from agent.model import fence
from agent.model.owner_labels import annotations, labels
from agent.moves.fence import renewals
from agent.moves.fence.pods import FencedPodController
from agent.moves.fence.promises import FencePromiseController
from agent.moves.fence.renewals import FenceController
from agent.moves.fence.stopping import FenceStoppingController
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.runtime.controller import Controller
from agent.runtime.lease import LeaderLease, LeaseTimes
from agent.runtime.supervisor import Supervisor
from agent.scheduler.controller import ProxyScheduler
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, create, elected
from tests.controllers.starting import running
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

FENCE = "multicluster/fence"
THERE = (Chaperon, FenceStoppingController, FencePromiseController)
FENCES = (FenceController, FencedPodController)
TERM = 4


@contextlib.asynccontextmanager
async def agent_there(pair: Pair) -> AsyncIterator[LeaderLease]:
    """Hold and renew the leader lease of the target's agent."""
    times = LeaseTimes(duration=3.0, renew=2.2, retry=0.2)
    lease = LeaderLease(pair.there, SystemClock(), pair.namespace, names.LEASE_CONTROLLERS, "agent-0", times)

    async def work() -> None:
        await until(lambda: False, 3600)

    async with Supervisor("target") as supervisor:
        supervisor.spawn("agent", lambda: lease.run(work))
        await until(lambda: lease.leading)
        yield lease
    await pair.there.delete(LEASES, names.LEASE_CONTROLLERS, pair.namespace)


@contextlib.asynccontextmanager
async def at_work(pair: Pair, **settings: Any) -> AsyncIterator[tuple[Target, Relay]]:
    """Run both agents, with the target behind a relay."""
    async with agent_there(pair) as lease, with_agent(pair, lease, **settings) as (target, relay):
        yield target, relay


@contextlib.asynccontextmanager
async def with_agent(pair: Pair, lease: LeaderLease, **settings: Any) -> AsyncIterator[tuple[Target, Relay]]:
    """Run agents in both clusters; the target's agent has a leader lease."""
    terms = {"fence_after": float(TERM), "fence_margin": 2.0, "lease_duration": 2.0, "agent_interval": 0.5, **settings}
    async with (
        running(pair.clusters[1], *THERE, lease=lease),
        Relay.started(load(str(pair.clusters[1].kubeconfig))) as relay,
        running(pair.clusters[0], *FENCES, Feedback, ProxyScheduler, **terms) as pair.deps,
        connected(pair.deps, pair.here, pair.namespace, eu=relay.connection) as targets,
    ):
        yield targets["eu"], relay


async def pod(pair: Pair, target: Target, name: str, asked: str = "lease") -> Raw:
    """Create a fenced pod; return it once it runs in the target."""
    manifest = elected(name, pair.namespace, terminationGracePeriodSeconds=1)
    manifest["metadata"]["annotations"][FENCE] = asked
    await create(pair.here, manifest, [target])

    async def runs() -> Raw | None:
        found = await pair.here.get(PODS, name, pair.namespace)
        return found if found["status"].get("phase") == "Running" else None

    return await until(runs) or {}


async def annotation(client: Client, kind: Any, namespace: str, name: str, key: str) -> str:
    return str((await client.get(kind, name, namespace))["metadata"].get("annotations", {}).get(key, ""))


async def is_kept(pair: Pair, name: str) -> bool:
    return bool(await annotation(pair.here, PODS, pair.namespace, name, fencing.ANNOTATION_KEPT) == str(TERM + 1))


def lease_name(pair: Pair, target: Target) -> str:
    assert pair.deps is not None
    return fencing.lease(pair.deps.cluster_uid, target.node_name)


async def chaperon_of(pair: Pair, made: Raw) -> str:
    """Create the chaperon of a proxy pod as the scheduler does; return its name."""
    assert pair.deps is not None
    metadata = made["metadata"]
    name = names.chaperon(metadata["name"], metadata["uid"])
    chaperon = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {
            "name": name,
            "annotations": annotations(metadata),
            "labels": labels(metadata, cluster_name="", cluster_uid=pair.deps.cluster_uid),
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    await pair.there.create(CHAPERONS, chaperon, pair.namespace)
    return name


async def test_a_target_that_is_cut_off_stops_what_is_fenced_and_its_source_then_lets_it_go(pair: Pair) -> None:
    async with at_work(pair) as (target, relay):
        made = {name: await pod(pair, target, name, asked) for name, asked in (("db", "lease"), ("web", "none"))}
        await until(lambda: is_kept(pair, "db"))
        delegates = {name: names.chaperon(name, each["metadata"]["uid"]) for name, each in made.items()}
        lease = await pair.there.get(LEASES, lease_name(pair, target), pair.namespace)
        assert lease["spec"]["leaseDurationSeconds"] == TERM
        assert not await annotation(pair.here, PODS, pair.namespace, "web", fencing.ANNOTATION_KEPT)
        relay.cut()
        await pair.here.delete(PODS, "db", pair.namespace)
        await pair.here.delete(PODS, "web", pair.namespace)
        await gone(lambda: pair.here.get(PODS, "db", pair.namespace))
        assert await pair.no_copy(PODS, delegates["db"])
        assert await annotation(pair.there, CHAPERONS, pair.namespace, delegates["db"], fencing.ANNOTATION_FENCED)
        assert (await pair.there.get(PODS, delegates["web"], pair.namespace))["status"]["phase"] == "Running"
        assert (await pair.here.get(PODS, "web", pair.namespace))["metadata"]["deletionTimestamp"]
        told = {event["reason"] for event in await pair.there.list(EVENTS, pair.namespace)}
        assert "Fenced" in told
        relay.mend()
        for each in delegates.values():
            await pair.gone(CHAPERONS, each)
        await gone(lambda: pair.here.get(PODS, "web", pair.namespace))
        # The Lease of an unused fence is deleted.
        await pair.gone(LEASES, lease_name(pair, target))


async def test_a_fence_that_nobody_asks_for_any_more_is_taken_down(pair: Pair) -> None:
    async with at_work(pair) as (target, _):
        made = await pod(pair, target, "db")
        await until(lambda: is_kept(pair, "db"))

        async def is_dated() -> bool:
            """Return whether the API server dates each renewal, since the leader of another process relies on it."""
            metadata = (await pair.there.get(LEASES, lease_name(pair, target), pair.namespace))["metadata"]
            made = datetime.fromisoformat(metadata["creationTimestamp"])
            age = fence.age(metadata, made + timedelta(seconds=3))
            return age == 0.0

        await until(is_dated)
        await pair.here.patch(PODS, "db", {"metadata": {"annotations": {FENCE: None}}}, pair.namespace)
        delegate = names.chaperon("db", made["metadata"]["uid"])

        async def is_free() -> bool:
            key = fencing.ANNOTATION_LEASE
            return not await annotation(pair.there, CHAPERONS, pair.namespace, delegate, key)

        await until(is_free)
        assert not await annotation(pair.here, PODS, pair.namespace, "db", fencing.ANNOTATION_KEPT)


async def test_a_fence_counts_only_while_the_agent_there_is_known_to_keep_it(pair: Pair) -> None:
    async with contextlib.AsyncExitStack() as dying:
        lease = await dying.enter_async_context(agent_there(pair))
        async with with_agent(pair, lease, fence_after=60.0) as (target, _):
            await pod(pair, target, "db")

            async def kept() -> bool:
                return bool(await annotation(pair.here, PODS, pair.namespace, "db", fencing.ANNOTATION_KEPT))

            await until(kept)
            await dying.aclose()

            async def is_void() -> bool:
                return not await kept()

            await until(is_void)


async def test_a_lease_gets_a_longer_term_once_no_pod_bears_a_note_of_the_shorter_one(pair: Pair) -> None:
    async with at_work(pair) as (target, _):
        await pod(pair, target, "db")
        await until(lambda: is_kept(pair, "db"))
        assert pair.deps is not None
        notes: list[str | None] = []

        def changed(old: Object | None, new: Object | None) -> None:
            if new is not None and new.name == "db":
                notes.append(new.annotations.get(fencing.ANNOTATION_KEPT))

        stop = pair.deps.proxies.informer.subscribe(changed)
        # As if --fence-after had been shorter before.
        shorter = {"spec": {"leaseDurationSeconds": TERM - 1}}
        await pair.there.patch(LEASES, lease_name(pair, target), shorter, pair.namespace)

        async def is_long() -> bool:
            found = await pair.there.get(LEASES, lease_name(pair, target), pair.namespace)
            return bool(found["spec"]["leaseDurationSeconds"] == TERM)

        await until(is_long)
        assert None in notes
        await until(lambda: is_kept(pair, "db"))
        stop()


def now() -> str:
    return micro_stamp(SystemClock().now())


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_another_leader_stops_what_should_have_been_and_a_late_renewal_starts_nothing(pair: Pair) -> None:
    name = f"{fencing.LEASE_PREFIX}by-hand"
    there, namespace = pair.there, pair.namespace
    metadata = {"name": name, "labels": {fencing.LABEL_FENCE: "S"}}
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": metadata}
    spec = {"holderIdentity": "S", "leaseDurationSeconds": TERM, "renewTime": now()}
    await there.create(LEASES, {**lease, "spec": spec}, namespace)
    chaperon = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {
            "name": "db",
            "labels": {names.LABEL_PARENT_UID: "P"},
            "annotations": {fencing.ANNOTATION_LEASE: name},
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}], "terminationGracePeriodSeconds": 1},
    }
    async with running(pair.clusters[1], *THERE, identity="a"):
        await there.create(CHAPERONS, chaperon, namespace)
        await until(lambda: there.get(PODS, "db", namespace))

        async def promised() -> bool:
            return await annotation(there, CHAPERONS, namespace, "db", fencing.ANNOTATION_KEPT_BY) == f"a {TERM + 1}"

        await until(promised)

    async def aged() -> bool:
        written = (await there.get(LEASES, name, namespace))["spec"]["renewTime"]
        return (SystemClock().now() - SystemClock().now().fromisoformat(written)).total_seconds() > TERM + 2

    await until(aged)
    async with running(pair.clusters[1], *THERE, identity="b", pod_missing=0.5):

        async def stopped() -> bool:
            return bool(await annotation(there, CHAPERONS, namespace, "db", fencing.ANNOTATION_FENCED))

        await until(stopped)
        await gone(lambda: there.get(PODS, "db", namespace))
        await there.patch(LEASES, name, {"spec": {"renewTime": now()}}, namespace)
        since = names.ANNOTATION_POD_MISSING_SINCE
        await until(lambda: annotation(there, CHAPERONS, namespace, "db", since))
        again = {**chaperon, "metadata": {**chaperon["metadata"], "name": "next"}}
        await there.create(CHAPERONS, again, namespace)
        await until(lambda: there.get(PODS, "next", namespace))
        assert await pair.no_copy(PODS, "db")


async def test_targets_that_do_not_answer_hold_up_no_lease_of_another(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without renewals, the agent of the healthy target would stop its pods."""
    monkeypatch.setattr(renewals, "_ANSWER_SECONDS", 600.0)
    dark = [f"dark-{number}" for number in range(Controller.workers + 1)]
    async with (
        Relay.started(pair.connection) as relay,
        running(pair.clusters[0], *FENCES, fence_after=float(TERM), fence_margin=2.0) as pair.deps,
    ):
        # Requests without a response outlast this test.
        pair.deps.local.client.session.timeout = 600.0
        connections = {"eu": pair.connection, **dict.fromkeys(dark, relay.connection)}
        async with connected(pair.deps, pair.here, pair.namespace, **connections) as targets:
            relay.freeze(lambda method, path: f"/{LEASES.plural}" in path)
            for name in (*dark, "eu"):
                manifest = elected(name, pair.namespace)
                manifest["metadata"]["annotations"][FENCE] = "lease"
                made = await create(pair.here, manifest, [targets[name]])
                there = {"metadata": {"name": name}, "target": {"kind": "Node", "name": targets[name].node_name}}
                await pair.here.create(PODS, there, pair.namespace, sub="binding")
            await chaperon_of(pair, made)
            await pair.copy(LEASES, lease_name(pair, targets["eu"]))
            assert len({path for _, path in relay.requests if f"/{LEASES.plural}" in path}) >= Controller.workers
