"""Promise 69: a group moves as a whole, once there is room for all of it, and before that nothing of it is deleted."""

from typing import Any

from agent.api import names
from agent.api.kinds import NAMESPACES, PODS
from agent.api.names import SHORT_PREFIX, moves
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import STATEFULSETS
from tests.e2e.reservations import settled
from tests.e2e.test_19_groups import ROOMY, all_run, marks, member, told_to_go
from tests.e2e.test_63_mover import send

Raw = dict[str, Any]


async def group_in_eu(fleet: Fleet, namespace: str) -> set[str]:
    """A StatefulSet whose pods are a group, each of which takes a node; UIDs of its pods."""
    await send(fleet, namespace, "eu")
    made = manifests.stateful_set("team", ROOMY)
    template = made["spec"]["template"]
    template["metadata"]["annotations"] |= marks("team", ROOMY, on_failure=names.RESTART)
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    await fleet.source.create(STATEFULSETS, made, namespace)
    where = await settled(fleet, namespace, ROOMY)
    assert set(where.values()) == {"eu"}
    return set(where)


async def say(fleet: Fleet, namespace: str, reason: str, words: str) -> None:
    """Wait until every pod of the group says for this reason why it is not where it should be."""

    async def said() -> bool:
        told = [condition(pod, moves.CONDITION) for pod in await fleet.pods(namespace, "team")]
        return len(told) == ROOMY and all(
            each.get("reason") == reason and words in each.get("message", "") for each in told
        )

    await fleet.until(f"all say {reason}", said, about=namespace)


async def test_a_group_moves_as_one_where_it_asks_for_that_and_has_room(fleet: Fleet, namespace: str) -> None:
    before = await group_in_eu(fleet, namespace)
    lone = member("lone-0", {SHORT_PREFIX + moves.TARGETS: "us"})
    await fleet.source.create(PODS, lone, namespace)
    await all_run(fleet, namespace, "lone", 1)
    await send(fleet, namespace, "us")
    await say(fleet, namespace, "Held", SHORT_PREFIX + moves.MOVE)
    asked = {"metadata": {"annotations": {SHORT_PREFIX + moves.MOVE: moves.EVICT}}}
    await fleet.source.patch(NAMESPACES, namespace, asked)
    await say(fleet, namespace, "NoRoom", f"there is room for {ROOMY - 1} of the {ROOMY} pods")
    assert before < set(await fleet.delegates(namespace))
    await fleet.source.delete(PODS, "lone-0", namespace)

    async def all_there() -> bool:
        found = await fleet.delegates(namespace)
        return len(found) == ROOMY and all(cluster == "us" for cluster, _ in found.values())

    await fleet.until("the group is in us", all_there, about=namespace, seconds=90)
    after = await settled(fleet, namespace, ROOMY)
    assert not before & set(after)
    assert len(await told_to_go(fleet, namespace) & before) == ROOMY - 1
    fleet.census.check(namespace, at_most=2 * ROOMY + 1, may_end=True)
