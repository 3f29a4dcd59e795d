"""Before the agent releases a pod, it checks whether unanswered requests have created objects."""

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, PODS, TARGETS
from agent.api.names import ANNOTATION_PARENT_NAME, LABEL_PARENT_UID
from hack.lab.sandbox import faults
from tests.e2e import manifests
from tests.e2e.faults.overlaps import none_overlap
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS
from tests.e2e.reservations import empty, is_candidate_post
from tests.e2e.test_07_lost_link import noticed

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")

BURST = 32
Raw = dict[str, Any]


@contextlib.asynccontextmanager
async def preferring_us(fleet: Fleet) -> AsyncIterator[str]:
    """Provide a namespace whose pods prefer us, with connections that are already open."""
    async with fleet.namespace(targets=()) as namespace:
        await fleet.join(namespace, "eu")
        await fleet.join(namespace, "us", weight=100)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("warm", 4), namespace)
        await fleet.running(namespace, "warm", 4)
        await fleet.source.delete(DEPLOYMENTS, "warm", namespace, propagation="Background")
        await empty(fleet, namespace)
        yield namespace


@contextlib.asynccontextmanager
async def unanswered(fleet: Fleet) -> AsyncIterator[None]:
    """Drop packets from us to cd: requests arrive, answers do not."""
    rule = ("OUTPUT", "--destination", fleet.sandbox["cd"].address, "--jump", "DROP")
    cluster = fleet.sandbox["us"].runner.cluster
    await faults.inside(cluster, "iptables", "--insert", *rule)
    try:
        yield
    finally:
        await faults.inside(cluster, "iptables", "--delete", *rule)


@contextlib.asynccontextmanager
async def cut(fleet: Fleet) -> AsyncIterator[None]:
    """Cut the link to us; the kernel keeps retransmitting sent data."""
    await fleet.sandbox.set_link("us", up=False)
    try:
        yield
    finally:
        await fleet.sandbox.set_link("us", up=True)


async def first(fleet: Fleet, namespace: str) -> Raw:
    """Wait until the pod `web-0` of a StatefulSet is claimed, and return it."""

    async def claimed() -> Raw:
        pod = await fleet.source.get(PODS, "web-0", namespace)
        return pod if "multicluster/claim" in pod["metadata"]["annotations"] else {}

    return await fleet.until("web-0 is claimed", claimed, about=namespace)


async def runs_anew(fleet: Fleet, namespace: str, before: Raw) -> None:
    """Wait until a new `web-0` runs."""

    async def another() -> bool:
        pod = await fleet.source.get(PODS, "web-0", namespace)
        return bool(pod["metadata"]["uid"] != before["metadata"]["uid"] and pod["status"]["phase"] == "Running")

    await fleet.until("another web-0 runs", another, about=namespace)
    await fleet.agree(namespace)


@pytest.mark.usefixtures("processes_only")
async def test_a_stateful_pod_that_is_deleted_after_an_unanswered_post_never_runs_twice(fleet: Fleet) -> None:
    async with preferring_us(fleet) as namespace, none_overlap(fleet, namespace):
        async with unanswered(fleet):
            await fleet.source.create(STATEFULSETS, manifests.stateful_set("web", 1), namespace)

            async def arrived() -> list[Raw]:
                return await fleet.clients["us"].list(PODS, namespace, labels=LABEL_PARENT_UID)

            await fleet.until("the delegate is there, which the source does not know", arrived, about=namespace)
            before = await fleet.source.get(PODS, "web-0", namespace)
            await fleet.source.delete(PODS, "web-0", namespace)
            await noticed(fleet, namespace)
            held = await fleet.source.get(PODS, "web-0", namespace)
            assert held["metadata"]["uid"] == before["metadata"]["uid"], "the pod was let go of while it runs"
        await runs_anew(fleet, namespace, before)


@pytest.mark.seldom
@pytest.mark.usefixtures("processes_only")
async def test_a_post_that_was_on_its_way_when_the_link_was_cut_arrives_never_or_before_the_pod_goes(
    fleet: Fleet,
) -> None:
    async with preferring_us(fleet) as namespace, none_overlap(fleet, namespace):
        async with cut(fleet):
            await fleet.source.create(STATEFULSETS, manifests.stateful_set("web", 1), namespace)
            before = await first(fleet, namespace)
            await fleet.source.delete(PODS, "web-0", namespace)
            await noticed(fleet, namespace)
            # The agent's request times out meanwhile.
            await asyncio.sleep(8)
            held = await fleet.source.get(PODS, "web-0", namespace)
            assert held["metadata"]["uid"] == before["metadata"]["uid"]
        await runs_anew(fleet, namespace, before)
        # Longest pause between two retransmissions of the kernel.
        await asyncio.sleep(12)


async def test_a_target_removed_in_a_burst_whose_posts_are_not_all_answered_leaves_nothing_there(fleet: Fleet) -> None:
    seed = secrets.randbits(32)
    print(f"replies that are lost: random.Random({seed})")
    chance = random.Random(seed)

    def some(method: str, path: str, body: bytes) -> bool:
        return is_candidate_post(method, path, body) and chance.random() < 0.4

    us = fleet.sandbox["us"]
    authority = (us.directory / "pki" / "ca.crt").read_bytes()
    gateway = fleet.sandbox.plan.host_address
    async with (
        faults.LossyProxy(us.server, authority, gateway, some) as proxy,
        fleet.namespace(targets=("eu",)) as namespace,
    ):
        await fleet.join(namespace, "us", server=proxy.url, authority=proxy.authority)
        await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", BURST), namespace)

        async def under_way() -> bool:
            there = await fleet.clients["us"].list(CHAPERONS, namespace)
            return len(there) >= BURST // 8 and proxy.lost > 0

        await fleet.until("the burst is under way, and a reply was lost", under_way, about=namespace)
        await fleet.source.delete(TARGETS, "us", namespace)
        await fleet.gone(TARGETS, "us", namespace)
        left = await fleet.clients["us"].list(CHAPERONS, namespace)
        assert [each["metadata"]["annotations"][ANNOTATION_PARENT_NAME] for each in left] == []
        assert proxy.lost, "no reply was lost"
        await fleet.running(namespace, "web", BURST, seconds=120)
        await fleet.agree(namespace)
        assert {cluster for cluster, _ in (await fleet.delegates(namespace)).values()} == {"eu"}
