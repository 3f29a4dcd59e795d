"""Promise 69: a group moves as a whole once the target has capacity for all of it; until then no pod is
deleted."""

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import NAMESPACES, PODS
from agent.api.names import SHORT_PREFIX, moves
from agent.kube.informer import Informer
from agent.kube.store import Object
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import STATEFULSETS
from tests.e2e.reservations import settled
from tests.e2e.test_19_groups import ROOMY, all_run, marks, member, told_to_go
from tests.e2e.test_63_mover import send
from tests.e2e.test_68_move_verbs import read

Raw = dict[str, Any]

KILLS = 2


async def group_in_eu(fleet: Fleet, namespace: str) -> set[str]:
    """Create a StatefulSet whose pods form a group, one pod per node. Return the UIDs of its pods."""
    await send(fleet, namespace, "eu")
    made = manifests.stateful_set("team", ROOMY)
    template = made["spec"]["template"]
    template["metadata"]["annotations"] |= marks("team", ROOMY, on_failure=names.RESTART)
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    await fleet.source.create(STATEFULSETS, made, namespace)
    where = await settled(fleet, namespace, ROOMY)
    assert set(where.values()) == {"eu"}
    return set(where)


@contextlib.asynccontextmanager
async def never_in_two_targets(fleet: Fleet, namespace: str) -> AsyncIterator[None]:
    """Fail if a watch reports pods of the group in two targets at once, except terminating pods."""
    now: dict[str, str] = {}
    torn: list[dict[str, str]] = []

    def note(old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        now.pop(pod.uid, None)
        if new is not None and new.node_name and not new.deleting:
            now[new.uid] = new.node_name
        if len(set(now.values())) > 1:
            torn.append(dict(now))

    informer = Informer(fleet.source, PODS, namespace, labels="app=team")
    informer.subscribe(note)
    watching = asyncio.ensure_future(informer.run())
    try:
        await informer.synced.wait()
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert torn == []


async def all_in(fleet: Fleet, namespace: str, target: str) -> set[str]:
    """Wait until the whole group is in one target. Return the UIDs of its pods."""

    async def all_there() -> bool:
        found = await fleet.delegates(namespace)
        return len(found) == ROOMY and all(cluster == target for cluster, _ in found.values())

    await fleet.until(f"the group is in {target}", all_there, about=namespace, seconds=90)
    return set(await settled(fleet, namespace, ROOMY))


async def say(fleet: Fleet, namespace: str, reason: str, words: str) -> None:
    """Wait until every pod of the group has this reason and these words in its condition about its place."""

    async def said() -> bool:
        told = [condition(pod, moves.CONDITION) for pod in await fleet.pods(namespace, "team")]
        return len(told) == ROOMY and all(
            each.get("reason") == reason and words in each.get("message", "") for each in told
        )

    await fleet.until(f"all say {reason}", said, about=namespace)


async def test_a_group_moves_as_one_where_it_asks_for_that_and_has_room(fleet: Fleet, namespace: str) -> None:
    before = await group_in_eu(fleet, namespace)
    async with never_in_two_targets(fleet, namespace):
        after = await moves_once_there_is_room(fleet, namespace, before)
    assert not before & after
    assert len(await told_to_go(fleet, namespace) & before) == ROOMY - 1
    fleet.census.check(namespace, at_most=2 * ROOMY + 1, may_end=True)


async def moves_once_there_is_room(fleet: Fleet, namespace: str, before: set[str]) -> set[str]:
    """Check that the group stays until it may be evicted and all its pods fit. Return the UIDs of its pods in
    `us`."""
    lone = member("lone-0", {SHORT_PREFIX + moves.TARGETS: "us"})
    await fleet.source.create(PODS, lone, namespace)
    await all_run(fleet, namespace, "lone", 1)
    await send(fleet, namespace, "us")
    await say(fleet, namespace, "Held", SHORT_PREFIX + moves.MOVE)
    asked = {"metadata": {"annotations": {SHORT_PREFIX + moves.MOVE: moves.EVICT}}}
    await fleet.source.patch(NAMESPACES, namespace, asked)
    await say(fleet, namespace, "NoRoom", f"there is room for {ROOMY - 1} of the {ROOMY} pods")
    assert before < set(await fleet.delegates(namespace))
    await says_before_what_comes_of_it(fleet, namespace)
    await fleet.source.delete(PODS, "lone-0", namespace)
    return await all_in(fleet, namespace, "us")


async def says_before_what_comes_of_it(fleet: Fleet, namespace: str) -> None:
    """Check that a dry run treats the group as a unit, as the agent does."""

    async def would() -> set[tuple[bool, str]]:
        pods = (await read(fleet, namespace, "move", "sts/team", "--to", "us", "--dry-run"))["pods"]
        assert len(pods) == ROOMY
        return {(each["moves"], each["how"]) for each in pods}

    assert await would() == {(True, "its group starts again as a whole, once there is room for all of it")}
    of_one = {"metadata": {"annotations": {SHORT_PREFIX + names.POD_GROUP_ON_FAILURE: None}}}
    await fleet.source.patch(PODS, "team-0", of_one, namespace)
    await say(fleet, namespace, "Held", "not so of pod team-0")
    ((moves_, how),) = await would()
    assert (moves_, how.endswith("not so of pod team-0")) == (False, True)
    of_one["metadata"]["annotations"] = {SHORT_PREFIX + names.POD_GROUP_ON_FAILURE: names.RESTART}
    await fleet.source.patch(PODS, "team-0", of_one, namespace)


@pytest.mark.seldom
@pytest.mark.usefixtures("processes_only")
async def test_leaders_killed_while_a_group_moves_leave_no_half_of_it_behind(fleet: Fleet, namespace: str) -> None:
    seed = secrets.randbits(32)
    print(f"moments of the kills: random.Random({seed})")
    moments = random.Random(seed)
    before = await group_in_eu(fleet, namespace)
    asked = {"metadata": {"annotations": {SHORT_PREFIX + moves.MOVE: moves.EVICT}}}
    await fleet.source.patch(NAMESPACES, namespace, asked)
    async with never_in_two_targets(fleet, namespace):
        for target in ("us", "eu", "us"):
            await send(fleet, namespace, target)
            for _ in range(KILLS):
                await asyncio.sleep(moments.uniform(0.1, 6.0))
                await fleet.sandbox.kill("cd", "agent")
                await fleet.sandbox.start("cd", "agent")
            before, gone = await all_in(fleet, namespace, target), before
            assert not before & gone
    fleet.census.check(namespace, may_end=True)
