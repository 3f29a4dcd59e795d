"""Groups between real clusters: all or nothing, even if protocol messages are lost."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CONFIGMAPS, PODS
from tests.controllers.proxies import create, elected
from tests.scheduler.reserving import Open, Stage
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

Raw = dict[str, Any]
POD_GROUP, POD_GROUP_SIZE = names.SHORT_PREFIX + names.POD_GROUP, names.SHORT_PREFIX + names.POD_GROUP_SIZE
ROOMY = 2
"""Number of nodes of a target, each with capacity for one member."""


async def form(at: Stage, group: str, size: int, policy: str = "", *, count: int = 0) -> list[str]:
    """Create the pods of a group, each of which fills a node. Return their names."""
    marks = {POD_GROUP: group, POD_GROUP_SIZE: str(size)}
    if policy:
        marks[names.SHORT_PREFIX + names.POD_GROUP_POLICY] = policy
    named = [f"{group}-{number}" for number in range(count or size)]
    await at.pods(*named, cpu="3", annotations=marks)
    return named


def allowed(found: list[tuple[str, Raw]]) -> int:
    """Return the number of allowed chaperons."""
    return sum(names.ANNOTATION_IS_ALLOWED in each["metadata"]["annotations"] for _, each in found)


async def claimed(at: Stage, group: str) -> int:
    """Return the number of members with a claim."""
    pods = [pod for pod in await at.proxies() if pod["metadata"]["name"].startswith(f"{group}-")]
    return sum(names.ANNOTATION_CLAIM in pod["metadata"]["annotations"] for pod in pods)


async def test_none_gets_leave_before_all_are_claimed(opened: Open) -> None:
    async with opened() as at:
        at.near.freeze(lambda asked, path: asked == "PATCH" and path.endswith("/pods/team-2"))
        await form(at, "team", 3)

        async def two() -> bool:
            return await claimed(at, "team") == 2

        await until(two)
        await asyncio.sleep(1.0)
        assert allowed(await at.chaperons()) == 0
        at.near.mend()
        at.near.break_streams()
        await at.settled(3)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_claims_are_given_back_when_the_last_one_cannot_be_had(opened: Open) -> None:
    async with opened(group_timeout=4.0) as at:
        at.near.freeze(lambda asked, path: asked == "PATCH" and path.endswith("/pods/team-2"))
        await form(at, "team", 3)

        async def two() -> bool:
            return await claimed(at, "team") == 2

        async def none() -> bool:
            return await claimed(at, "team") == 0 and allowed(await at.chaperons()) == 0

        await until(two)
        await until(none)
        at.near.mend()
        at.near.break_streams()
        await at.settled(3)


async def test_leave_that_is_lost_for_one_member_is_given_again(opened: Open) -> None:
    async with opened() as at:
        lost: list[str] = []

        def first(asked: str, path: str) -> bool:
            if asked != "PATCH" or "/podchaperons/" not in path or lost:
                return False
            lost.append(path)
            return True

        for relay in at.relays.values():
            relay.lose_reply = first
        await form(at, "team", 2 * ROOMY)
        where = await at.settled(2 * ROOMY)
        assert sorted(where.values()) == ["eu", "eu", "us", "us"]
        assert lost


async def test_a_group_for_one_cluster_goes_where_all_of_it_fits(opened: Open) -> None:
    async with opened() as at:
        await at.pod("lone", cpu="3")
        taken = (await at.run(1))["lone"]
        await form(at, "team", ROOMY, "one-cluster")
        where = await at.settled(ROOMY + 1)
        assert {where["team-0"], where["team-1"]} == {"us", "eu"} - {taken}


async def test_two_groups_for_half_and_more_run_one_after_the_other(opened: Open) -> None:
    async with opened(group_timeout=6.0) as at:
        size = ROOMY + 1
        await asyncio.gather(*(form(at, group, size) for group in ("left", "right")))

        async def running(group: str) -> bool:
            pods = [pod for pod in await at.proxies() if pod["metadata"]["name"].startswith(f"{group}-")]
            return len(pods) == size and all(pod["status"].get("phase") == "Running" for pod in pods)

        async def first() -> str:
            return "left" if await running("left") else "right" if await running("right") else ""

        winner = await until(first)
        other = "right" if winner == "left" else "left"
        await at.waits(f"{other}-0", f"group {other}")
        assert await claimed(at, other) == 0
        await at.delete(*(f"{winner}-{number}" for number in range(size)))
        await until(lambda: running(other))
        await at.settled(size)


async def test_more_pods_than_the_group_says_follow_when_it_has_begun(opened: Open) -> None:
    async with opened() as at:
        await form(at, "team", 2, count=3)
        await at.settled(3)


async def test_a_member_whose_size_cannot_be_read_is_named_to_all(opened: Open) -> None:
    async with opened() as at:
        await form(at, "team", 2, count=1)
        await write_size(at, "team-0", "two")
        await at.waits("team-0", "metadata.annotations[multicluster/group-size] of pod team-0 is 'two'")
        await at.pod("team-1", annotations={POD_GROUP: "team", POD_GROUP_SIZE: "2"})
        await at.waits("team-1", "metadata.annotations[multicluster/group-size] of pod team-0 is 'two'")
        await write_size(at, "team-0", "2")
        await at.settled(2)


async def write_size(at: Stage, name: str, size: str) -> None:
    """Change a member's group size without a webhook that could refuse it."""
    await at.client.patch(PODS, name, {"metadata": {"annotations": {POD_GROUP_SIZE: size}}}, at.namespace)


async def test_a_pod_without_a_group_runs_beside_a_group_that_cannot(opened: Open) -> None:
    async with opened(group_timeout=3.0) as at:
        await form(at, "team", 2 * ROOMY + 1)
        await at.waits("team-0", "got no reservation for every member in 3 s")
        await at.pod("lone", cpu="3")

        async def runs() -> bool:
            return bool((await at.client.get(PODS, "lone", at.namespace))["status"].get("phase") == "Running")

        await until(runs)
        assert await claimed(at, "team") == 0
        await at.delete(*(f"team-{number}" for number in range(2 * ROOMY + 1)))
        await at.settled(1)


async def form_of(at: Stage, owner: str, *named: str) -> dict[str, str]:
    """Create a controller's group of three pods that restarts as a whole. Return the UIDs by name."""
    marks = {POD_GROUP: "team", POD_GROUP_SIZE: "3", names.SHORT_PREFIX + names.POD_GROUP_ON_FAILURE: names.RESTART}
    made = {}
    for name in named:
        manifest = elected(name, at.namespace)
        manifest["metadata"]["annotations"] |= marks
        reference = {"apiVersion": "v1", "kind": CONFIGMAPS.name, "name": "job", "uid": owner, "controller": True}
        manifest["metadata"]["ownerReferences"] = [reference]
        found = await create(at.client, manifest, [*at.targets.values()])
        made[name] = str(found["metadata"]["uid"])
    return made


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_group_is_taken_back_as_a_whole_though_not_all_can_be_deleted_at_once(opened: Open) -> None:
    async with opened() as at:
        job = await at.client.create(CONFIGMAPS, {"metadata": {"name": "job"}}, at.namespace)
        owner = str(job["metadata"]["uid"])
        await form_of(at, owner, "team-0", "team-1", "team-2")
        await at.settled(3)
        first = {pod["metadata"]["annotations"][names.ANNOTATION_GROUP_RUN] for pod in await at.proxies()}
        assert len(first) == 1
        at.near.freeze(lambda asked, path: asked == "DELETE" and path.endswith("/pods/team-2"))
        await at.delete("team-0")

        async def left(*wanted: str) -> bool:
            return {pod["metadata"]["name"] for pod in await at.proxies()} == set(wanted)

        await until(lambda: left("team-2"))
        (last,) = await at.proxies()
        (why,) = [each for each in last["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert why["reason"] == "DeletionByGroupRestart"
        assert "group team has lost team-0" in why["message"]
        await form_of(at, owner, "team-3")
        await at.waits("team-3", "starts again as a whole")
        at.near.mend()
        at.near.break_streams()
        await until(lambda: left("team-3"))
        await at.waits("team-3", "there are 1 of 3 pods")
        await form_of(at, owner, "team-4", "team-5")
        await at.settled(3)
        second = {pod["metadata"]["annotations"][names.ANNOTATION_GROUP_RUN] for pod in await at.proxies()}
        assert len(second) == 1
        assert first != second
