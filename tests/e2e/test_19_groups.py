"""Promise 19: the pods of a group start together or not at all, and groups never block each other."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import PODS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
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
)

Raw = dict[str, Any]

ROOMY = 3
"""Nodes of a target, each with room for one member."""


def marks(group: str, size: int | str, policy: str = "") -> dict[str, str]:
    """Annotations of a member."""
    found = {names.SHORT_PREFIX + names.POD_GROUP: group, names.SHORT_PREFIX + names.POD_GROUP_SIZE: str(size)}
    return found | ({names.SHORT_PREFIX + names.POD_GROUP_POLICY: policy} if policy else {})


def member(name: str, annotations: dict[str, str], cpu: str = "3", **spec: Any) -> Raw:
    """A pod that takes a node of its own."""
    pod = manifests.pod(name, annotations=annotations, **spec)
    pod["metadata"]["labels"]["team"] = "all"
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return pod


async def form(fleet: Fleet, namespace: str, group: str, size: int, policy: str = "", **more: Any) -> list[str]:
    """Create a group; returns the UIDs of its pods."""
    annotations = marks(group, size, policy)
    pods = [member(f"{group}-{number}", annotations, **more) for number in range(size)]
    created = [await fleet.source.create(PODS, pod, namespace) for pod in pods]
    return [pod["metadata"]["uid"] for pod in created]


async def dissolve(fleet: Fleet, namespace: str, group: str, *numbers: int) -> None:
    """Delete members of a group, all if no numbers are given, and wait until they are gone."""
    found = [pod["metadata"]["name"] for pod in await fleet.source.list(PODS, namespace)]
    chosen = [f"{group}-{number}" for number in numbers] or [name for name in found if name.startswith(f"{group}-")]
    for name in chosen:
        await fleet.source.delete(PODS, name, namespace)
    for name in chosen:
        await fleet.gone(PODS, name, namespace)


async def running(fleet: Fleet, namespace: str, group: str) -> list[Raw]:
    """Pods of a group that run."""
    pods = [pod for pod in await fleet.pods(namespace) if pod["metadata"]["name"].startswith(f"{group}-")]
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


async def all_run(fleet: Fleet, namespace: str, group: str, size: int) -> None:
    """Wait until a whole group runs."""

    async def probe() -> bool:
        return len(await running(fleet, namespace, group)) == size

    await fleet.until(f"group {group} runs", probe, about=namespace, seconds=90)


async def test_a_group_takes_what_two_targets_have_together(fleet: Fleet, namespace: str) -> None:
    await form(fleet, namespace, "team", 2 * ROOMY - 1)
    where = await settled(fleet, namespace, 2 * ROOMY - 1)
    assert set(where.values()) == set(CLUSTERS)
    fleet.census.check(namespace, at_most=2 * ROOMY - 1)


async def test_a_group_that_wants_one_cluster_gets_one(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, member("lone-0", {}, nodeSelector={manifests.REGION: "us"}), namespace)
    await all_run(fleet, namespace, "lone", 1)
    await form(fleet, namespace, "team", ROOMY, "one-cluster")
    await all_run(fleet, namespace, "team", ROOMY)
    where = await settled(fleet, namespace, ROOMY + 1)
    assert sorted(where.values()) == ["eu"] * ROOMY + ["us"]
    fleet.census.check(namespace, at_most=ROOMY + 1)


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


@pytest.mark.parametrize(
    ("step", "lost"),
    [
        pytest.param(is_candidate_post, False, id="after the first candidate"),
        pytest.param(is_allow, True, id="between claims and leaves"),
        pytest.param(is_allow, False, id="after the first leave"),
        pytest.param(is_delete, True, id="before the first loser is deleted"),
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
