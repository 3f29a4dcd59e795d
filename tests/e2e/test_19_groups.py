"""Promise 19: the pods of a group start together or not at all, and groups never block each other."""

import asyncio
import contextlib
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import EVENTS, PODS
from agent.kube.errors import KubeError
from agent.model.podstate import ENDED
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, JOBS
from tests.e2e.reservations import (
    CLUSTERS,
    Killer,
    between,
    candidates,
    chaperons,
    empty,
    is_allow,
    is_candidate_post,
    is_delete,
    notes,
    settled,
    waits,
    without,
)

Raw = dict[str, Any]

ROOMY = 3
"""Nodes of a target, each with capacity for one member."""


def marks(group: str, size: int | str, policy: str = "", on_failure: str = "") -> dict[str, str]:
    """Return the annotations of a member."""
    found = {names.POD_GROUP: group, names.POD_GROUP_SIZE: str(size)}
    found |= {names.POD_GROUP_POLICY: policy} if policy else {}
    found |= {names.POD_GROUP_ON_FAILURE: on_failure} if on_failure else {}
    return {names.SHORT_PREFIX + key: value for key, value in found.items()}


def member(name: str, annotations: dict[str, str], cpu: str = "3", **spec: Any) -> Raw:
    """Return a pod that needs a node of its own."""
    pod = manifests.pod(name, annotations=annotations, **spec)
    pod["metadata"]["labels"]["team"] = "all"
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


async def form(fleet: Fleet, namespace: str, group: str, size: int, policy: str = "", **more: Any) -> list[str]:
    """Create a group of pods; return their UIDs."""
    annotations = marks(group, size, policy)
    pods = [member(f"{group}-{number}", annotations, **more) for number in range(size)]
    created = [await fleet.source.create(PODS, pod, namespace) for pod in pods]
    return [pod["metadata"]["uid"] for pod in created]


async def dissolve(fleet: Fleet, namespace: str, group: str, *numbers: int) -> None:
    """Delete members of a group, all if no numbers are given, and wait until they no longer exist."""
    found = [pod["metadata"]["name"] for pod in await fleet.source.list(PODS, namespace)]
    chosen = [f"{group}-{number}" for number in numbers] or [name for name in found if name.startswith(f"{group}-")]
    for name in chosen:
        await fleet.source.delete(PODS, name, namespace)
    for name in chosen:
        await fleet.gone(PODS, name, namespace)


async def running(fleet: Fleet, namespace: str, group: str) -> list[Raw]:
    """Return the running pods of a group."""
    pods = [pod for pod in await fleet.pods(namespace) if pod["metadata"]["name"].startswith(f"{group}-")]
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


async def all_run(fleet: Fleet, namespace: str, group: str, size: int) -> None:
    """Wait until all pods of a group run."""

    async def probe() -> bool:
        return len(await running(fleet, namespace, group)) == size

    await fleet.until(f"group {group} runs", probe, about=namespace, seconds=90)


async def test_a_group_takes_what_two_targets_have_together(fleet: Fleet, namespace: str) -> None:
    await form(fleet, namespace, "team", 2 * ROOMY - 1)
    where = await settled(fleet, namespace, 2 * ROOMY - 1)
    assert set(where.values()) == set(CLUSTERS)
    fleet.census.check(namespace, at_most=2 * ROOMY - 1)


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_a_group_that_wants_one_cluster_gets_one(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, member("lone-0", {}, nodeSelector={manifests.REGION: "us"}), namespace)
    await all_run(fleet, namespace, "lone", 1)
    await form(fleet, namespace, "team", ROOMY, "one-cluster")
    await all_run(fleet, namespace, "team", ROOMY)
    where = await settled(fleet, namespace, ROOMY + 1)
    assert sorted(where.values()) == ["eu"] * ROOMY + ["us"]
    fleet.census.check(namespace, at_most=ROOMY + 1)


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_a_group_waits_for_its_last_member_and_makes_no_candidates_before(fleet: Fleet, namespace: str) -> None:
    annotations = marks("team", 3)
    for number in range(2):
        await fleet.source.create(PODS, member(f"team-{number}", annotations), namespace)
    for number in range(2):
        await waits(fleet, namespace, f"team-{number}", "group team waits for its members: there are 2 of 3 pods")
    assert await chaperons(fleet, namespace) == []
    gated = member("team-2", annotations, schedulingGates=[{"name": "example.com/quota"}])
    await fleet.source.create(PODS, gated, namespace)
    await asyncio.sleep(2)
    assert await chaperons(fleet, namespace) == [], "a gated member does not count"
    await fleet.source.patch(PODS, "team-2", {"spec": {"schedulingGates": None}}, namespace)
    await settled(fleet, namespace, 3)
    fleet.census.check(namespace, at_most=3)


async def test_a_group_that_is_too_big_gives_everything_back_and_others_get_it(fleet: Fleet, namespace: str) -> None:
    await form(fleet, namespace, "team", 2 * ROOMY + 1)

    async def holds_all() -> bool:
        found = [notes(chaperon) for _, chaperon in await chaperons(fleet, namespace)]
        return sum(names.ANNOTATION_IS_RESERVED in each for each in found) >= 2 * ROOMY

    await fleet.until("the group holds all nodes", holds_all, about=namespace)
    await fleet.source.create(PODS, member("lone-0", {}), namespace)
    await all_run(fleet, namespace, "lone", 1)
    await waits(fleet, namespace, "team-0", "group team")
    assert await running(fleet, namespace, "team") == []
    assert len(fleet.census.of(namespace, fleet.census.born.values())) == 1
    await dissolve(fleet, namespace, "team")
    await settled(fleet, namespace, 1)


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_of_two_groups_that_need_more_than_half_each_one_runs_and_then_the_other(
    fleet: Fleet, namespace: str
) -> None:
    size = ROOMY + 1
    await asyncio.gather(*(form(fleet, namespace, group, size) for group in ("left", "right")))

    async def first() -> str:
        complete = [group for group in ("left", "right") if len(await running(fleet, namespace, group)) == size]
        return complete[0] if complete else ""

    winner = await fleet.until("one of the groups runs", first, about=namespace, seconds=90)
    other = "right" if winner == "left" else "left"
    await waits(fleet, namespace, f"{other}-0", f"group {other}")
    assert await running(fleet, namespace, other) == []
    await dissolve(fleet, namespace, winner)
    await all_run(fleet, namespace, other, size)
    await settled(fleet, namespace, size)
    fleet.census.check(namespace, at_most=2 * size, may_end=True)


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_members_that_disagree_are_told_which_annotation_of_which_pod(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, member("team-0", marks("team", 2)), namespace)
    await waits(fleet, namespace, "team-0", "waits for its members")
    await fleet.source.create(PODS, member("team-1", marks("team", 3)), namespace)
    for name in ("team-0", "team-1"):
        await waits(
            fleet, namespace, name, "metadata.annotations[multicluster/group-size] of pod team-", "write the same"
        )
    size = {"metadata": {"annotations": marks("team", 2)}}
    await fleet.source.patch(PODS, "team-1", size, namespace)
    await settled(fleet, namespace, 2)


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_a_member_deleted_while_the_group_collects_sends_the_others_back_to_wait(
    fleet: Fleet, namespace: str
) -> None:
    size = 2 * ROOMY + 1
    await form(fleet, namespace, "team", size)

    async def collects() -> bool:
        return len(await chaperons(fleet, namespace)) >= 2 * ROOMY

    await fleet.until("the group collects", collects, about=namespace)
    await dissolve(fleet, namespace, "team", 2, 3)
    await waits(fleet, namespace, "team-0", f"there are {size - 2} of {size} pods")
    await candidates(fleet, namespace, 0)
    assert fleet.census.of(namespace, fleet.census.born.values()) == []
    await dissolve(fleet, namespace, "team")
    await empty(fleet, namespace)


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
@pytest.mark.parametrize(
    ("step", "lost"),
    [
        pytest.param(is_candidate_post, False, id="after the first candidate"),
        pytest.param(is_allow, True, id="between claims and leaves", marks=pytest.mark.seldom),
        pytest.param(is_allow, False, id="after the first leave", marks=pytest.mark.seldom),
        pytest.param(is_delete, True, id="before the first loser is deleted", marks=pytest.mark.seldom),
    ],
)
async def test_a_source_killed_at_any_step_completes_the_group(fleet: Fleet, step: Any, lost: bool) -> None:
    killer = Killer(fleet, step, lost=lost)
    async with between(fleet, killer) as namespace:
        size = 2 * ROOMY - 1
        await form(fleet, namespace, "team", size)
        await killer.revive()
        await settled(fleet, namespace, size, seconds=90)
        fleet.census.check(namespace, at_most=size)
        await dissolve(fleet, namespace, "team")


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_a_member_that_is_lost_after_the_start_is_replaced_alone(fleet: Fleet, namespace: str) -> None:
    workload = manifests.deployment("team", 3)
    workload["spec"]["template"]["metadata"]["annotations"] |= marks("team", 3, "one-cluster")
    await fleet.source.create(DEPLOYMENTS, workload, namespace)
    before = await settled(fleet, namespace, 3)
    assert len(set(before.values())) == 1
    pod, *_ = await fleet.running(namespace, "team", 3)
    await fleet.source.delete(PODS, pod["metadata"]["name"], namespace)

    async def replaced() -> bool:
        return pod["metadata"]["uid"] not in await fleet.delegates(namespace)

    await fleet.until("its delegate has gone", replaced, about=namespace)
    after = await settled(fleet, namespace, 3)
    assert set(after.values()) == set(before.values())
    assert len(after.keys() & before.keys()) == 2


async def starting_again(fleet: Fleet, namespace: str) -> set[str]:
    """Run a group of three that restarts as a whole; return the UIDs of its pods."""
    workload = manifests.deployment("team", 3)
    workload["spec"]["template"]["metadata"]["annotations"] |= marks("team", 3, on_failure=names.RESTART)
    await fleet.source.create(DEPLOYMENTS, workload, namespace)
    return set(await settled(fleet, namespace, 3))


async def restarted(fleet: Fleet, namespace: str, before: set[str]) -> set[str]:
    """Wait until the delegates of these pods have ended or been deleted, and three other pods run. Return the
    UIDs of those."""

    async def gone() -> bool:
        found = await fleet.delegates(namespace)
        return all(found[uid][1]["status"].get("phase") in ENDED for uid in before & found.keys())

    await fleet.until("the whole group has gone", gone, about=namespace)
    for pod in await fleet.source.list(PODS, namespace):
        if pod["status"].get("phase") == "Failed":
            await fleet.source.delete(PODS, pod["metadata"]["name"], namespace)
    return set(await settled(fleet, namespace, 3, seconds=90))


async def told_to_go(fleet: Fleet, namespace: str) -> set[str]:
    """Return the UIDs of pods that were deleted to restart their group."""
    events = await fleet.source.list(EVENTS, namespace, fields="reason=GroupRestart")
    return {event["involvedObject"]["uid"] for event in events}


@pytest.mark.seldom
@pytest.mark.parametrize(
    "away",
    [
        pytest.param(False, id="the agent sees it"),
        pytest.param(True, id="the agent is away meanwhile"),
    ],
)
async def test_a_group_that_loses_a_member_starts_again_as_one_where_it_asks_for_that_and_once(
    fleet: Fleet, namespace: str, away: bool
) -> None:
    before = await starting_again(fleet, namespace)
    pod, *_ = await fleet.running(namespace, "team", 3)
    async with without(fleet, "cd", "agent") if away else contextlib.nullcontext():
        await fleet.source.delete(PODS, pod["metadata"]["name"], namespace)
    after = await restarted(fleet, namespace, before)
    assert not after & before
    await fleet.source.create(PODS, member("lone-0", {}), namespace)
    await all_run(fleet, namespace, "lone", 1)
    await dissolve(fleet, namespace, "lone")
    assert set(await settled(fleet, namespace, 3)) == after
    fleet.census.check(namespace, at_most=7, may_end=True)
    assert await told_to_go(fleet, namespace) == before - {pod["metadata"]["uid"]}


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_a_group_starts_again_when_a_member_fails_and_again_when_another_does(
    fleet: Fleet, namespace: str
) -> None:
    pods = await starting_again(fleet, namespace)
    for _ in range(2):
        _, (cluster, delegate) = min((await fleet.delegates(namespace)).items())
        evicted = {"status": {"phase": "Failed", "reason": "Evicted", "message": "no disk"}}
        client = fleet.clients[cluster]
        await client.patch(PODS, delegate["metadata"]["name"], evicted, namespace, sub="status")
        before, pods = pods, await restarted(fleet, namespace, pods)
        assert not pods & before
    fleet.census.check(namespace, at_most=9, may_end=True)


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_members_that_end_well_are_no_loss(fleet: Fleet, namespace: str) -> None:
    job = manifests.job("team", 3)
    job["spec"]["template"]["metadata"]["annotations"] |= marks("team", 3, on_failure=names.RESTART)
    await fleet.source.create(JOBS, job, namespace)

    async def complete() -> Raw:
        status: Raw = (await fleet.source.get(JOBS, "team", namespace))["status"]
        return status if status.get("succeeded") == 3 else {}

    status = await fleet.until("the Job is complete", complete, about=namespace)
    assert not status.get("failed")
    fleet.census.check(namespace, at_most=3, may_end=True)
    assert await told_to_go(fleet, namespace) == set()


@pytest.mark.full("A variant of the tests that start a group together or not at all.")
async def test_a_pod_that_nothing_would_make_again_is_refused(fleet: Fleet, namespace: str) -> None:
    with pytest.raises(KubeError, match=r"multicluster/group-on-failure.*this pod has none"):
        await fleet.source.create(PODS, member("team-0", marks("team", 2, on_failure=names.RESTART)), namespace)
