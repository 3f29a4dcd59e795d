"""Model of a quorum: targets are lost, budgets refuse, and a member is ready only while a majority has started."""

import random
from dataclasses import dataclass, field, replace

import pytest

from agent.moves.mover.decide import decide
from agent.moves.mover.view import Evict, Owner, Pod
from tests.examples import seeds

STARTS = 2
"""Ticks until a pod can be ready."""


@dataclass
class Member:
    """A member's pod, with state that only the model can see."""

    pod: Pod
    target: str
    age: int = 0
    broken: bool = False


@dataclass
class World:
    """A StatefulSet without claims. Its controller creates members one after the other (podManagementPolicy
    OrderedReady)."""

    random: random.Random
    replicas: int = 3
    ordered: bool = True
    lost: frozenset[str] = frozenset()
    held: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    made: int = 0

    def make(self, name: str, target: str) -> Member:
        self.made += 1
        self.members[name] = Member(Pod(name, f"u{self.made}", available=False), target)
        return self.members[name]

    def serves(self, member: Member) -> bool:
        return member.target not in self.lost and not member.broken and not member.pod.deleting

    def tick(self) -> None:
        """Advance by one tick. Members stop and become ready, unobserved in lost targets; the owner recreates
        missing ones."""
        for name, each in list(self.members.items()):
            each.age += 1
            if each.pod.deleting:
                del self.members[name]
        started = [each for each in self.members.values() if self.serves(each) and each.age >= STARTS]
        # Members that need a quorum are created all at once (podManagementPolicy Parallel).
        quorum = self.ordered or len(started) > self.replicas // 2
        for each in self.members.values():
            # The last status of a lost target's pods stays.
            if each.target not in self.lost:
                each.pod = replace(each.pod, available=quorum and each in started)
        for ordinal in range(self.replicas):
            found = self.members.get(f"db-{ordinal}")
            if found is None:
                self.make(f"db-{ordinal}", self.random.choice(("us", "asia")))
            # The StatefulSet controller trusts a pod's last Ready condition.
            if self.ordered and not self.members[f"db-{ordinal}"].pod.available:
                return

    def view(self) -> list[Pod]:
        """Return the members as the mover reads them: all have to leave eu."""
        found = []
        for each in self.members.values():
            is_lost = each.target in self.lost
            cause = "Lost" if is_lost else "Retire" if each.target == "eu" else ""
            found.append(replace(each.pod, cause=cause, answers=not is_lost, certified=is_lost))
        return found

    def move(self) -> None:
        owner = Owner("StatefulSet", "db", "evict", held=self.held, replicas=self.replicas)
        plan = decide(owner, self.view())
        away = any(pod.lives and pod.cause for pod in self.view())
        assert plan.waits or plan.holds or not away, "nothing has the mover look at them again"
        for action in plan.actions:
            if isinstance(action, Evict):
                self.evict(action.old)

    def evict(self, old: Pod) -> None:
        """Evict a member. The budget refuses while any member is reported unavailable, as the API server does."""
        member = self.members[old.name]
        healthy = sum(each.pod.available for each in self.members.values())
        is_deleted = old.cause == "Lost" and not old.answers
        if is_deleted or healthy == self.replicas or not old.available:
            assert is_deleted or not old.available or healthy == self.replicas
            member.pod = replace(member.pod, deleting=True)


@pytest.mark.parametrize("seed", seeds(60))
def test_what_is_lost_is_made_again_whatever_its_siblings_and_its_owner_do(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, replicas=chance.choice((1, 3, 5)), ordered=chance.random() < 0.5)
    for ordinal in range(chance.randrange(1, world.replicas + 1) if world.ordered else world.replicas):
        member = world.make(f"db-{ordinal}", chance.choice(("eu", "eu", "us")))
        member.age = STARTS
        member.broken = chance.random() < 0.3 and member.target == "eu"
        member.pod = replace(member.pod, available=not member.broken)
    world.lost = frozenset({"eu"})
    world.held = chance.choice(("", "its StatefulSet rolls out"))
    for _ in range(100):
        world.move()
        world.tick()
    assert len(world.members) == world.replicas
    assert all(each.pod.available and each.target != "eu" for each in world.members.values())


@pytest.mark.parametrize("seed", seeds(20))
def test_a_member_that_never_was_ready_leaves_a_target_that_answers(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, ordered=True)
    member = world.make("db-0", "eu")
    member.broken = True
    for _ in range(100):
        world.move()
        world.tick()
    assert len(world.members) == world.replicas
    assert all(each.pod.available and each.target != "eu" for each in world.members.values())
