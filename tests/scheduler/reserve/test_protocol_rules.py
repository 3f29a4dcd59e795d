"""Scenarios in which a pod runs twice, or not at all, if one rule of mode `reserve` is broken."""

from collections.abc import Callable

import pytest

from tests.scheduler.reserve.agent_model import Agent
from tests.scheduler.reserve.mutants import (
    AllowsMembersOneByOne,
    AllowsWhateverHasTheName,
    AsksForNoSecondRound,
    ClaimsWithoutGuard,
    MovesAClaimWithoutReading,
)
from tests.scheduler.reserve.settling import check_settled, settle
from tests.scheduler.reserve.world_model import World

ONE_EACH = {"eu": 1, "us": 1}


def late_leader(world: World, kind: type[Agent]) -> None:
    """A second agent has observed eu before its candidate was created, and the claim afterwards."""
    old = kind(world, 0)
    world.agents.append(old)
    new = kind(world, 0, late=True)
    new.sync()
    world.pod(0, "web", order=("eu", "us"))
    for _ in range(3):
        world.tick(only=old)
    assert world.sources[0]["web"].claim == "eu"
    assert world.targets["eu"].bound
    new.sync_pods()
    world.agents.append(new)
    for _ in range(3):
        new.reconcile("web")
        world.deliver_all(new)
        world.check()


def two_claims(world: World, kind: type[Agent]) -> None:
    """Two agents claim the same pod for one target each; the first agent's claim arrives last."""
    old, new = kind(world, 0), kind(world, 0, late=True)
    world.agents[:] = [old, new]
    world.pod(0, "web", order=("eu", "us"))
    world.tick(only=old)
    for agent in (old, new):
        agent.sync()
    new.ready["eu"] = False
    old.reconcile("web")
    assert world.requests, "the first claim is on its way"
    for _ in range(3):
        new.sync_pods()
        new.sync_target("us")
        new.reconcile("web")
        world.deliver_all(new)
        world.go_on("us", finish=False)
    assert world.targets["us"].bound
    world.deliver_all(old)
    world.check()


def late_leave(world: World, kind: type[Agent]) -> None:
    """The permission arrives late: its candidate was deleted and recreated, and the pod runs in another target."""
    agent = kind(world, 0)
    world.agents.append(agent)
    world.pod(0, "web", order=("eu", "us"))
    world.tick()
    world.tick()
    agent.sync()
    agent.reconcile("web")
    leave = next(request for request in world.requests if request.allows)
    agent.give_up_waiting(leave)
    world.requests.remove(leave)
    world.restart_scheduler("eu")
    world.targets["eu"].foreign = 1
    for _ in range(8):
        world.tick()
    pod = world.sources[0]["web"]
    assert pod.node_name == "us"
    world.create(0, pod, "eu")
    world.requests.append(leave)
    world.deliver(0)
    world.check()


def reservation_ends(world: World, kind: type[Agent]) -> None:
    """The source observes a reservation only after its end."""
    agent = kind(world, 0)
    world.agents.append(agent)
    world.pod(0, "web", order=("eu",))
    agent.sync()
    agent.reconcile("web")
    world.deliver_all()
    for seconds in (11.0, 0.0):
        world.go_on("eu", finish=False)
        world.now += seconds
    settle(world)
    check_settled(world)


def claims_one_by_one(world: World, kind: type[Agent]) -> None:
    """One member of a group is claimed, the other is not yet."""
    agent = kind(world, 0)
    world.agents.append(agent)
    for name in ("a", "b"):
        world.pod(0, name, order=("eu", "us"), group="pair", size=2)
    for target in world.targets.values():
        target.slots = 2
    world.tick()
    for _ in range(3):
        agent.sync()
        agent.reconcile("a")
        world.deliver_all()
        world.check()
    assert world.sources[0]["a"].claim
    assert not world.sources[0]["b"].claim
    settle(world)
    check_settled(world)


@pytest.mark.parametrize(
    ("story", "mutant"),
    [
        (late_leader, MovesAClaimWithoutReading),
        (two_claims, ClaimsWithoutGuard),
        (late_leave, AllowsWhateverHasTheName),
        (reservation_ends, AsksForNoSecondRound),
        (claims_one_by_one, AllowsMembersOneByOne),
    ],
    ids=[
        "a claim is withdrawn on old news",
        "two agents claim",
        "leave arrives late",
        "a reservation has ended",
        "a group is claimed one by one",
    ],
)
def test_each_rule_is_needed_when(story: Callable[[World, type[Agent]], None], mutant: type[Agent]) -> None:
    story(World(ONE_EACH), Agent)
    with pytest.raises(AssertionError, match=r"without claim|could run|of 2 claims"):
        story(World(ONE_EACH), mutant)
