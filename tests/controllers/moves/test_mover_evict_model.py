"""Model of evictions: the leader is killed before random writes, and disruption budgets change."""

import random
from dataclasses import dataclass, field, replace

import pytest

from agent.moves.mover.decide import decide
from agent.moves.mover.view import Action, Evict, Owner, Pod
from tests.examples import seeds

LONG_ENOUGH = 3
"""Ticks until a pod is available."""


@dataclass
class Version:
    """A pod, with state that only the model can see."""

    pod: Pod
    target: str
    age: int = LONG_ENOUGH


@dataclass
class World:
    """A StatefulSet behind a Service, a disruption budget, and a mover that may be killed."""

    random: random.Random
    replicas: int = 3
    wanted: str = "us"
    held: str = ""
    room: str = ""
    allowed: bool = True
    """Whether the budget allows an eviction while all pods are available."""
    trouble: bool = True
    pods: dict[str, Version] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        for _ in range(self.replicas):
            self.create("eu", available=True)

    def create(self, target: str, *, available: bool) -> None:
        """Create the pod with the first free ordinal."""
        name = next(f"db-{ordinal}" for ordinal in range(self.replicas) if f"db-{ordinal}" not in self.pods)
        self.made += 1
        self.pods[name] = Version(Pod(name, f"u{self.made}", available=available), target, age=0)

    def tick(self) -> None:
        """Advance by one tick: pods become ready, end, and are recreated."""
        for name, each in list(self.pods.items()):
            each.age += 1
            if each.pod.deleting and each.age > 1:
                del self.pods[name]
            elif not each.pod.available and each.age >= LONG_ENOUGH:
                each.pod = replace(each.pod, available=True)
        if len(self.pods) < self.replicas:
            self.create(self.wanted, available=False)

    def disturb(self) -> None:
        """Make one random change to the target, the owner, the capacity or the budget."""
        match self.random.randrange(6):
            case 0:
                self.wanted = self.random.choice(("us", "eu"))
            case 1:
                self.held = self.random.choice(("", "it rolls out"))
            case 2:
                self.room = self.random.choice(("", "us is full"))
            case _:
                self.allowed = not self.allowed

    def view(self) -> list[Pod]:
        """Return the pods as a mover reads them."""
        return [
            replace(
                each.pod,
                cause="Targets" if each.target != self.wanted and not each.pod.deleting else "",
                room=self.room,
            )
            for each in self.pods.values()
        ]

    def move(self, pods: list[Pod]) -> None:
        """Run one pass of a mover, possibly on a stale view, possibly killed before any of its writes."""
        owner = Owner("StatefulSet", "db", "evict", held=self.held, replicas=self.replicas)
        for action in decide(owner, pods).actions:
            if self.trouble and self.random.random() < 0.2:
                return
            self.apply(action)
            self.hold_true()

    def apply(self, action: Action) -> None:
        """Evict a pod, if the budget allows that now."""
        if not isinstance(action, Evict):
            return
        each = next((each for each in self.pods.values() if each.pod.uid == action.old.uid), None)
        if each is None or each.pod.deleting:
            return
        if self.allowed and all(one.pod.available and not one.pod.deleting for one in self.pods.values()):
            each.pod, each.age = replace(each.pod, deleting=True), 0

    def hold_true(self) -> None:
        """Assert that at most one pod is unavailable at a time."""
        serve = [each for each in self.pods.values() if each.pod.available and not each.pod.deleting]
        assert len(serve) >= self.replicas - 1


@pytest.mark.parametrize("seed", seeds(100))
def test_evictions_come_to_their_end_whoever_is_killed_where(seed: int) -> None:
    world = World(random.Random(seed))
    views = [world.view()]
    for _ in range(120):
        if world.random.random() < 0.15:
            world.disturb()
        world.tick()
        views = [*views[-1:], world.view()]
        world.move(world.random.choice(views))
    world.trouble, world.allowed, world.held, world.room = False, True, "", ""
    for _ in range(100):
        world.tick()
        world.move(world.view())
    assert {each.target for each in world.pods.values()} == {world.wanted}
    assert len(world.pods) == world.replicas
