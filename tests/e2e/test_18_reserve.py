"""Promise 18: in mode `reserve` every pod runs exactly once, whichever process dies or stops responding at any
step."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import EVENTS, NAMESPACES, NODES, PODS, TARGETS
from agent.api.names import virtual_node
from hack.lab.sandbox.faults import Drop
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.reservations import (
    CLUSTERS,
    Killer,
    ballast,
    between,
    candidates,
    chaperons,
    empty,
    is_allow,
    is_candidate_post,
    is_delete,
    notes,
    relief,
    settled,
    strike,
    waits,
    without,
)

MANY, FEW, BURST = 10, 4, 30
CLAIM_UID = names.ANNOTATION_CLAIM_UID
BIG = {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}]}
"""Fits on an empty node, but not next to ballast of 3 CPUs."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fleet(fleet: Fleet) -> Fleet:
    """The fleet in mode `reserve`, after each target has made a reservation. Otherwise the first one would get
    all pods."""
    async with fleet.namespace() as name:
        for target in CLUSTERS:
            pinned = manifests.pod(target, nodeSelector={manifests.REGION: target})
            await fleet.source.create(PODS, pinned, name)
        await settled(fleet, name, len(CLUSTERS))
    return fleet


@pytest_asyncio.fixture(loop_scope="session")
async def full(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """A namespace after ballast has left 1 CPU on each node of both targets."""
    try:
        for target in CLUSTERS:
            await ballast(fleet, target, namespace, "3")
        yield namespace
    finally:
        for target in CLUSTERS:
            await relief(fleet, target, namespace)


async def deploy(fleet: Fleet, namespace: str, replicas: int = MANY) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", replicas), namespace)


def weight_for(step: Drop) -> int:
    """Return a weight that makes a target receive such a request: deletions go only to losers, permissions to
    winners."""
    return -100 if step is is_delete else 100


async def reserved(fleet: Fleet, namespace: str) -> set[str]:
    """Return the names of proxy pods that were placed by a reservation."""
    return {pod["metadata"]["name"] for pod in await fleet.pods(namespace) if CLAIM_UID in notes(pod)}


async def unclaimed(fleet: Fleet, namespace: str, before: int) -> int:
    """Create pods until one is placed without a reservation; return how many were still reserved before the
    agent had observed the change.

    `before`: number of pods in the namespace.
    """
    for late in range(5):
        name = f"by-namespace-{late}"
        await fleet.source.create(PODS, manifests.pod(name), namespace)
        await settled(fleet, namespace, before + late + 1)
        if name not in await reserved(fleet, namespace):
            return late
    raise AssertionError("every pod was reserved, whatever its namespace says")


async def test_a_deployment_spreads_over_both_targets_and_nothing_of_the_losers_is_left(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", MANY), namespace)
    where = await settled(fleet, namespace, MANY)
    for target in CLUSTERS:
        assert list(where.values()).count(target) >= MANY // 4
    fleet.census.check(namespace, at_most=MANY)
    for _, chaperon in await chaperons(fleet, namespace):
        assert notes(chaperon).keys() >= {names.ANNOTATION_IS_ALLOWED, names.ANNOTATION_IS_RESERVED}
    for pod in await fleet.pods(namespace):
        assert CLAIM_UID in notes(pod)
        assert len([name for name in pod["metadata"]["finalizers"] if name.startswith(names.PREFIX)]) == 1
    assert await fleet.source.list(EVENTS, namespace, fields="type=Warning,involvedObject.kind!=Target") == []
    lines = (await fleet.kubectl("us", "get", "podchaperons", f"--namespace={namespace}")).splitlines()
    assert lines[0].split()[:3] == ["NAME", "RESERVED", "ALLOWED"]
    assert {tuple(line.split()[1:3]) for line in lines[1:]} == {("true", "true")}
    await fleet.source.delete(DEPLOYMENTS, "web", namespace, propagation="Foreground")
    await empty(fleet, namespace)


@pytest.mark.full("Another moment or message that gets lost; the protocol's model covers it too.")
async def test_pod_and_namespace_say_how_they_are_scheduled_and_the_setting_says_it_for_the_others(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(PODS, manifests.pod("by-setting"), namespace)
    asked = {f"{names.PREFIX}{names.NO_RESERVATION}": ""}
    await fleet.source.create(PODS, manifests.pod("by-admiralty", annotations=asked), namespace)
    await settled(fleet, namespace, 2)
    said = {"metadata": {"annotations": {f"{names.SHORT_PREFIX}{names.SCHEDULING}": "ranked"}}}
    await fleet.source.patch(NAMESPACES, namespace, said)
    late = await unclaimed(fleet, namespace, 2)
    asked = {f"{names.SHORT_PREFIX}{names.SCHEDULING}": "reserve"}
    await fleet.source.create(PODS, manifests.pod("by-pod", annotations=asked), namespace)
    await settled(fleet, namespace, 4 + late)
    before_it_was_known = {f"by-namespace-{each}" for each in range(late)}
    assert await reserved(fleet, namespace) == {"by-setting", "by-pod", *before_it_was_known}
    fleet.census.check(namespace, at_most=4 + late)


@pytest.mark.full("The protocol's model kills the source at every step.")
@pytest.mark.parametrize(
    ("step", "lost"),
    [
        pytest.param(is_candidate_post, True, id="before the first candidate", marks=pytest.mark.seldom),
        pytest.param(is_candidate_post, False, id="after the first candidate", marks=pytest.mark.seldom),
        pytest.param(is_allow, True, id="between claim and leave"),
        pytest.param(is_allow, False, id="after the first leave", marks=pytest.mark.seldom),
        pytest.param(is_delete, True, id="before the first loser is deleted", marks=pytest.mark.seldom),
        pytest.param(is_delete, False, id="after the first loser is deleted", marks=pytest.mark.seldom),
    ],
)
async def test_a_source_killed_at_any_step_goes_on_where_it_was(fleet: Fleet, step: Drop, lost: bool) -> None:
    killer = Killer(fleet, step, lost=lost)
    async with between(fleet, killer, weight=weight_for(step)) as namespace:
        await deploy(fleet, namespace, FEW)
        count = await strike(fleet, killer.struck, namespace, FEW)
        await killer.revive()
        await settled(fleet, namespace, count)
        fleet.census.check(namespace, at_most=count)


@pytest.mark.seldom
async def test_a_source_that_is_away_for_longer_than_a_hold_asks_for_another(fleet: Fleet, namespace: str) -> None:
    await reserved_and_abandoned(fleet, namespace)
    try:

        async def ended() -> bool:
            found = [notes(chaperon) for _, chaperon in await chaperons(fleet, namespace)]
            return all(names.ANNOTATION_RESERVE_ENDED in each for each in found) and not any(
                names.ANNOTATION_IS_RESERVED in each for each in found
            )

        await fleet.until("all reservations have ended", ended, about=namespace)
    finally:
        await fleet.sandbox.start("cd", "agent")
    await settled(fleet, namespace, 4)
    fleet.census.check(namespace, at_most=4)


async def reserved_and_abandoned(fleet: Fleet, namespace: str, count: int = 4) -> None:
    """Create pods with reserved candidates in both targets, and kill the source's agent.

    The agent cannot claim before it dies, since the candidate schedulers are stopped until then.
    """
    for target in CLUSTERS:
        await fleet.sandbox.stop(target, "candidate-scheduler")
    try:
        await deploy(fleet, namespace, count)
        await candidates(fleet, namespace, 2 * count)
        await fleet.sandbox.kill("cd", "agent")
    finally:
        # Start both at once, so that the reservations of the first do not expire while the second starts.
        await asyncio.gather(*(fleet.sandbox.start(target, "candidate-scheduler") for target in CLUSTERS))
    await candidates(fleet, namespace, 2 * count, state="reserved")


@pytest.mark.seldom
@pytest.mark.parametrize("process", ["agent", "candidate-scheduler", "kube-apiserver"])
async def test_a_target_whose_processes_die_while_it_holds(fleet: Fleet, namespace: str, process: str) -> None:
    await reserved_and_abandoned(fleet, namespace)
    try:
        async with without(fleet, "us", process):
            await asyncio.sleep(1)
    finally:
        await fleet.sandbox.start("cd", "agent")
    await settled(fleet, namespace, 4)
    fleet.census.check(namespace, at_most=4)


@pytest.mark.full("Another moment or message that gets lost; the protocol's model covers it too.")
@pytest.mark.parametrize("process", [pytest.param("agent", marks=pytest.mark.seldom), "candidate-scheduler"])
async def test_a_target_without_a_process_that_reserves_costs_pods_that_can_go_elsewhere_nothing(
    fleet: Fleet, namespace: str, process: str
) -> None:
    async with without(fleet, "us", process):
        await deploy(fleet, namespace)
        await fleet.running(namespace, "web", MANY)
    where = await settled(fleet, namespace, MANY)
    assert "us" not in where.values()
    fleet.census.check(namespace, at_most=MANY)


@pytest.mark.seldom
async def test_a_link_cut_before_the_claim(fleet: Fleet, namespace: str) -> None:
    await reserved_and_abandoned(fleet, namespace, MANY)
    await fleet.sandbox.set_link("us", up=False)
    try:
        await fleet.sandbox.start("cd", "agent")
        await fleet.running(namespace, "web", MANY)
    finally:
        await fleet.sandbox.set_link("us", up=True)
    assert set((await settled(fleet, namespace, MANY)).values()) == {"eu"}
    fleet.census.check(namespace, at_most=MANY)


@pytest.mark.seldom
async def test_a_link_cut_between_claim_and_leave(fleet: Fleet) -> None:
    cut = Killer(fleet, is_allow, lost=True, kill=False)
    async with between(fleet, cut, weight=weight_for(is_allow)) as namespace:
        await deploy(fleet, namespace)
        count = await strike(fleet, cut.struck, namespace, MANY)
        await fleet.sandbox.set_link("us", up=False)
        try:
            cut.armed = False

            async def only_claimed_wait() -> bool:
                pods = await fleet.pods(namespace, "web")
                node = virtual_node(namespace, "us")
                left = [pod for pod in pods if pod["status"]["phase"] != "Running"]
                return len(pods) == count and all(notes(pod).get(names.ANNOTATION_CLAIM) == node for pod in left)

            await fleet.until("all but those that us has been promised run", only_claimed_wait, about=namespace)
            await asyncio.sleep(3)
        finally:
            await fleet.sandbox.set_link("us", up=True)
        await settled(fleet, namespace, count)
        fleet.census.check(namespace, at_most=count)


@pytest.mark.seldom
async def test_a_link_cut_in_the_middle_of_a_burst(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, BURST)
    await asyncio.sleep(1.5)
    await fleet.sandbox.set_link("us", up=False)
    await asyncio.sleep(8)
    await fleet.sandbox.set_link("us", up=True)
    await settled(fleet, namespace, BURST)
    fleet.census.check(namespace, at_most=BURST)


@pytest.mark.full("Another moment or message that gets lost; the protocol's model covers it too.")
@pytest.mark.parametrize(
    ("step", "lost"),
    [
        pytest.param(is_candidate_post, True, id="candidate: request lost", marks=pytest.mark.seldom),
        pytest.param(is_candidate_post, False, id="candidate: reply lost", marks=pytest.mark.seldom),
        pytest.param(is_allow, True, id="leave: request lost", marks=pytest.mark.seldom),
        pytest.param(is_allow, False, id="leave: reply lost", marks=pytest.mark.seldom),
        pytest.param(is_delete, True, id="delete: request lost"),
        pytest.param(is_delete, False, id="delete: reply lost", marks=pytest.mark.seldom),
    ],
)
async def test_what_a_target_was_asked_gets_lost_on_the_way(fleet: Fleet, step: Drop, lost: bool) -> None:
    seen: set[str] = set()

    def first_of_each(method: str, path: str, body: bytes) -> bool:
        if not step(method, path, body):
            return False
        key = path if method != "POST" else body.decode()
        first = key not in seen
        seen.add(key)
        return first

    losing = Killer(fleet, first_of_each, lost=lost, kill=False)
    async with between(fleet, losing, weight=weight_for(step)) as namespace:
        await deploy(fleet, namespace, FEW)
        count = await strike(fleet, losing.struck, namespace, FEW)
        await settled(fleet, namespace, count)
        assert seen
        fleet.census.check(namespace, at_most=count)


@pytest.mark.seldom
async def test_a_pod_deleted_while_candidates_are_reserved_leaves_nothing(fleet: Fleet, namespace: str) -> None:
    await reserved_and_abandoned(fleet, namespace)
    await fleet.source.delete(DEPLOYMENTS, "web", namespace)

    async def all_terminate() -> bool:
        pods = await fleet.source.list(PODS, namespace)
        return len(pods) == 4 and all("deletionTimestamp" in pod["metadata"] for pod in pods)

    await fleet.until("the pods are being deleted", all_terminate, about=namespace)
    await fleet.sandbox.start("cd", "agent")
    await empty(fleet, namespace)
    assert fleet.census.of(namespace, fleet.census.born.values()) == [], "a delegate of a deleted pod has run"


@pytest.mark.full("Another moment or message that gets lost; the protocol's model covers it too.")
async def test_what_fits_nowhere_says_why_keeps_its_candidates_and_runs_where_room_appears(
    fleet: Fleet, full: str
) -> None:
    namespace = full
    pod = await fleet.source.create(PODS, manifests.pod("big", **BIG), namespace)
    await waits(fleet, namespace, "big", "0/2 targets are available", "us: insufficient cpu", "eu: insufficient cpu")
    await candidates(fleet, namespace, 2, state="unschedulable")
    await relief(fleet, "eu", namespace)
    where = await settled(fleet, namespace, 1)
    assert where == {pod["metadata"]["uid"]: "eu"}
    fleet.census.check(namespace, at_most=1)


@pytest.mark.full("Another moment or message that gets lost; the protocol's model covers it too.")
async def test_a_target_cordoned_or_removed_while_it_has_only_candidates_takes_no_pod_with_it(
    fleet: Fleet, full: str
) -> None:
    namespace = full
    pod = await fleet.source.create(PODS, manifests.pod("big", **BIG), namespace)
    await candidates(fleet, namespace, 2, state="unschedulable")
    us = virtual_node(namespace, "us")
    await fleet.source.patch(NODES, us, {"spec": {"unschedulable": True}})
    await candidates(fleet, namespace, 0, "us")
    await candidates(fleet, namespace, 1, "eu", state="unschedulable")
    await fleet.source.patch(NODES, us, {"spec": {"unschedulable": None}})
    await candidates(fleet, namespace, 2, state="unschedulable")
    await fleet.source.delete(TARGETS, "us", namespace)
    await fleet.gone(TARGETS, "us", namespace)
    await candidates(fleet, namespace, 1, state="unschedulable")
    kept = await fleet.source.get(PODS, "big", namespace)
    assert kept["metadata"]["uid"] == pod["metadata"]["uid"]
    assert "deletionTimestamp" not in kept["metadata"]
    await relief(fleet, "eu", namespace)
    assert await settled(fleet, namespace, 1) == {pod["metadata"]["uid"]: "eu"}


@pytest.mark.full("Another moment or message that gets lost; the protocol's model covers it too.")
async def test_a_target_drained_of_pods_that_run_there_sends_them_elsewhere(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 6), namespace)
    assert "us" in (await settled(fleet, namespace, 6)).values()
    await fleet.source.delete(TARGETS, "us", namespace)
    await fleet.gone(TARGETS, "us", namespace)
    where = await settled(fleet, namespace, 6)
    assert set(where.values()) == {"eu"}
