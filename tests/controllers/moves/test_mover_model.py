"""Model of moves: the leader is killed between any two writes, while users change the objects."""

import random
from dataclasses import dataclass, field, replace

import pytest

from agent.moves.mover.decide import decide
from agent.moves.mover.view import Action, Adopt, Create, Discard, Evict, Mark, Owner, Pod, Restore, Tell, Together
from tests.examples import seeds

LONG_ENOUGH = 3
"""Ticks after which every observer has seen a change."""


@dataclass
class Version:
    """A pod, with state that only the model can see."""

    pod: Pod
    target: str
    version: int = 0
    age: int = 0
    broken: bool = False


@dataclass
class World:
    """A ReplicaSet with its controller, targets, and a mover that may be killed."""

    random: random.Random
    replicas: int = 4
    surge: int = 2
    wanted: str = "us"
    held: str = ""
    quota: bool = False
    """Whether a quota refuses replacements."""
    silent: str = ""
    """The unreachable target: its changes are not observed, and requests to it have no effect. Empty for none."""
    lost: bool = False
    """Whether the silent target is lost."""
    template: int = 0
    pods: dict[str, Version] = field(default_factory=dict)
    made: int = 0
    trouble: bool = True
    smooth: bool = True
    """Whether only the mover has deleted pods so far."""

    def __post_init__(self) -> None:
        for _ in range(self.replicas):
            self.new(target="eu")
        for each in self.pods.values():
            each.pod = replace(each.pod, placed=True, available=True)
            each.age = LONG_ENOUGH

    def new(self, target: str = "", **fields: object) -> None:
        """Create a pod, as the ReplicaSet controller does."""
        self.made += 1
        pod = Pod(name=f"web-{self.made:04}", uid=f"u{self.made:04}", created=f"{self.made:04}", placed=False)
        pod = replace(pod, available=False, **fields)
        self.pods[pod.name] = Version(pod, target or self.wanted)

    # Other actors --------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Advance by one tick: pods are placed, become ready, end; the ReplicaSet controller works."""
        for name, each in list(self.pods.items()):
            released = self.lost and each.pod.deleting
            if each.pod.placed and each.target == self.silent and not released:
                continue
            each.age += 1
            if each.pod.deleting and each.age > LONG_ENOUGH:
                del self.pods[name]
                continue
            placed = each.pod.placed or self.random.random() < 0.5 or not self.trouble
            ready = placed and not each.broken and (each.pod.available or each.age > LONG_ENOUGH)
            self.put(each, placed=placed, available=ready, announced=ready)
        self.control()

    def control(self) -> None:
        """Run the ReplicaSet controller; with trouble, some of its steps are late."""
        for step in (self.adopt, self.scale):
            if not self.trouble or self.random.random() < 0.6:
                step()

    def put(self, each: Version, **fields: object) -> None:
        """Change a pod, and raise its version if it differs."""
        after = replace(each.pod, **fields)
        if after != each.pod:
            each.pod, each.version = after, each.version + 1

    def adopt(self) -> None:
        """Adopt live pods that match the selector and have no controller, as a ReplicaSet does."""
        for each in self.pods.values():
            if not each.pod.owned and each.pod.selected and each.pod.lives:
                self.put(each, owned=True)

    def scale(self) -> None:
        """Create missing pods and delete surplus ones, in the order of the ReplicaSet controller."""
        mine = [each for each in self.pods.values() if each.pod.owned and each.pod.lives]
        for _ in range(self.replicas - len(mine)):
            self.new()
        rank = sorted(
            mine,
            key=lambda each: (each.pod.placed, each.pod.available, not each.pod.replaced_by, each.pod.rank, each.age),
        )
        for each in rank[: max(0, len(mine) - self.replicas)]:
            assert not self.smooth or each.pod.replaced_by, f"{each.pod.name} goes, and is not marked"
            self.delete(each)

    def delete(self, each: Version) -> None:
        """Mark the pod as terminating; it is removed a few ticks later."""
        self.put(each, deleting=True)
        each.age = 0

    def disturb(self) -> None:
        """Make one random change, as a user or another controller would."""
        some = self.random.choice([*self.pods.values()]) if self.pods else None
        match self.random.randrange(13):
            case 0:
                self.wanted = self.random.choice(("us", "eu"))
            case 1:
                self.smooth = False
                self.replicas = self.random.randrange(0, 6)
            case 2:
                self.held = self.random.choice(("", "it is paused"))
            case 3 if some is not None and not some.pod.deleting:
                self.smooth = False
                self.delete(some)
            case 4 if some is not None:
                self.smooth = False
                some.broken = not some.broken
                if some.broken:
                    self.put(some, available=False)
            case 5:
                self.template += 1
            case 6:
                self.quota = not self.quota
            case 7:
                self.silent, self.lost = self.random.choice(("", "us", "eu")), False
            case 8:
                self.lost = bool(self.silent)
            case 9 if some is not None and some.pod.replaces and some.pod.placed and not some.pod.deleting:
                self.smooth = False
                self.put(some, ended=True, available=False)
            case 10:
                self.smooth = False
                self.replicas = min(6, max(1, self.replicas + self.random.choice((-1, 1))))
            case _:
                pass

    # The mover ------------------------------------------------------------------------------------------------------

    def view(self) -> list[Pod]:
        """Return the pods as a mover reads them."""
        return [self.seen(each) for each in self.pods.values()]

    def seen(self, each: Version) -> Pod:
        cause = "Targets" if each.target != self.wanted and each.pod.placed else ""
        answers = not (each.pod.placed and each.target == self.silent)
        cause = "Lost" if self.lost and not answers else cause
        outdated = bool(each.pod.replaces) and not each.pod.owned and each.pod.why != f"template {self.template}"
        return replace(each.pod, cause=cause, answers=answers, silent=not answers, outdated=outdated)

    def owner(self) -> Owner:
        refused = "exceeded quota" if self.quota else ""
        return Owner("ReplicaSet", "web", "surge", "", self.held, self.replicas, self.surge, refused=refused)

    def move(self, views: list[tuple[Owner, list[Pod], dict[str, int]]]) -> bool:
        """Run one pass of a mover, possibly on a stale view, possibly killed before any of its writes."""
        owner, pods, versions = self.random.choice(views) if self.trouble else views[-1]
        if self.written(pods) != self.written(self.view()):
            # A leader has its own writes cached, and reads those of its predecessor from the API server.
            owner, pods, versions = views[-1]
        plan = decide(owner, pods)
        away = any(pod.owned and pod.lives and pod.cause for pod in pods)
        assert plan.waits or plan.holds or not away, "nothing has the mover look at them again"
        actions = plan.actions
        for action in actions:
            if self.trouble and self.random.random() < 0.2:
                return True
            if not self.apply(action, versions):
                return True
        return bool(actions)

    @staticmethod
    def written(pods: list[Pod]) -> set[tuple[str, str, str, bool]]:
        about = (pod for pod in pods if pod.replaces or pod.replaced_by)
        return {(pod.uid, pod.replaces, pod.replaced_by, pod.deleting) for pod in about}

    def snapshot(self) -> tuple[Owner, list[Pod], dict[str, int]]:
        versions = {each.pod.uid: each.version for each in self.pods.values()}
        return self.owner(), self.view(), versions

    def apply(self, action: Action, versions: dict[str, int]) -> bool:
        """Apply a write if the pod is unchanged since it was read; return whether to continue with the next write."""
        goes_on = True
        by_uid = {each.pod.uid: each for each in self.pods.values()}
        match action:
            case Create(old, name):
                if name not in self.pods and not self.quota:
                    self.new(replaces=old.uid, owned=False, selected=False, why=f"template {self.template}")
                    made = self.pods.pop(f"web-{self.made:04}")
                    made.pod = replace(made.pod, name=name)
                    self.pods[name] = made
            case Mark(old, new, rank):
                self.write(by_uid.get(old.uid), versions, replaced_by=new.uid, rank=rank)
            case Restore(old):
                self.write(by_uid.get(old.uid), versions, replaced_by="", rank=0)
            case Adopt(new, old):
                goes_on = self.write(by_uid.get(new.uid), versions, selected=True, replaces="")
            case Discard(new):
                each = by_uid.get(new.uid)
                if each is not None and each.version == versions[new.uid]:
                    self.delete(each)
            case Evict(_):
                raise AssertionError("nothing is evicted here")
        self.hold_true()
        return goes_on

    def write(self, each: Version | None, versions: dict[str, int], **fields: object) -> bool:
        if each is None or each.version != versions[each.pod.uid]:
            return False
        self.put(each, **fields)
        return True

    # Invariants ----------------------------------------------------------------------------------------------------

    def hold_true(self) -> None:
        """Assert the limits: never too many pods, and never too few available ones, unless another actor caused
        it."""
        lives = [each.pod for each in self.pods.values() if each.pod.lives]
        if self.smooth:
            lost = sum(self.seen(each).lost for each in self.pods.values() if each.pod.lives)
            assert len(lives) - lost <= self.replicas + self.surge
            assert sum(pod.available and not pod.replaced_by for pod in lives) >= self.replicas
            assert sum(pod.owned and pod.available for pod in lives) >= self.replicas

    def is_done(self) -> bool:
        """Return whether all pods are in the wanted target, in the wanted number, and without marks."""
        pods = [each.pod for each in self.pods.values()]
        marks = [pod for pod in pods if pod.replaced_by or (pod.replaces and not pod.owned)]
        placed = {each.target for each in self.pods.values()} <= {self.wanted}
        return not marks and placed and len(pods) == self.replicas


@pytest.mark.parametrize("seed", seeds(100))
@pytest.mark.parametrize("alone", [True, False], ids=["undisturbed", "disturbed"])
def test_a_move_comes_to_its_end_whoever_is_killed_where(seed: int, alone: bool) -> None:
    world = World(random.Random(seed), replicas=4 + seed % 5, surge=1 + seed % 4)
    views = [world.snapshot()]
    for _ in range(150):
        if not alone and world.random.random() < 0.1:
            world.disturb()
        world.tick()
        world.hold_true()
        views = [*views[-2:], world.snapshot()]
        world.move(views)
    world.held, world.silent, world.lost = "", "", False
    come_to_an_end(world)


def come_to_an_end(world: World) -> None:
    """Advance the model without faults until all pods are placed; fail after 400 ticks."""
    world.trouble, world.quota = False, False
    for each in world.pods.values():
        each.broken = False
    for _ in range(400):
        world.tick()
        world.hold_true()
        if not world.move([world.snapshot()]) and world.is_done():
            return
    raise AssertionError([each.pod for each in world.pods.values()])


@pytest.mark.parametrize("seed", seeds(60))
def test_lost_pods_are_replaced_though_their_owner_rolls_out_without_end(seed: int) -> None:
    """The rollout may wait for exactly these pods, and a Deployment may stay paused."""
    world = World(random.Random(seed), replicas=4 + seed % 5, surge=1 + seed % 4)
    views = [world.snapshot()]
    for _ in range(seed % 40):
        if world.random.random() < 0.1:
            world.disturb()
        world.tick()
        views = [*views[-2:], world.snapshot()]
        world.move(views)
    world.held, world.wanted, world.silent, world.lost = "its Deployment rolls out", "us", "eu", True
    world.smooth = world.heard = False
    come_to_an_end(world)


OLD = Pod("web-o", "o", cause="Targets")
MARKED = replace(OLD, replaced_by="n")
NEW = Pod("web-n", "n", owned=False, selected=False, replaces="o")
SURGE = Owner("ReplicaSet", "web", "surge")
EVICT = Owner("StatefulSet", "db", "evict", replicas=2)
OTHER = Pod("db-0", "d")


@pytest.mark.parametrize(
    ("owner", "pods"),
    [
        (SURGE, (OLD, replace(NEW, placed=False, available=False))),
        (SURGE, (OLD, replace(NEW, available=False))),
        (SURGE, (OLD, replace(NEW, announced=False))),
        (SURGE, (OLD, replace(NEW, answers=False))),
        (SURGE, (replace(OLD, answers=False), NEW)),
        (SURGE, (MARKED, replace(NEW, answers=False))),
        (SURGE, (MARKED, replace(NEW, selected=True, replaces=""))),
        (replace(SURGE, refused="exceeded quota"), (OLD,)),
        (replace(SURGE, held="it is paused"), (OLD,)),
        (replace(SURGE, surge=0), (OLD,)),
        (EVICT, (replace(OLD, cause="Retire", data=True), OTHER)),
        (EVICT, (OLD, replace(OTHER, available=False))),
        (EVICT, (replace(OLD, room="us has not enough cpu"), OTHER)),
        (EVICT, (replace(OLD, cause="Lost", answers=False), OTHER)),
        (EVICT, (replace(OLD, together=Together("NoRoom", "room for 2 of 3")), OTHER)),
        (EVICT, (replace(OLD, together=Together(waits=True)), OTHER)),
        (replace(EVICT, way="stay", why="it finishes"), (OLD, OTHER)),
        (EVICT, (replace(OLD, cause="FailBack"), OTHER)),
    ],
)
def test_what_cannot_go_on_for_hours_is_told_once_and_writes_nothing_more(owner: Owner, pods: tuple[Pod, ...]) -> None:
    said = {tell.pod.uid: tell for tell in decide(owner, pods).actions if isinstance(tell, Tell)}
    looks_again = decide(owner, pods).waits or decide(owner, pods).holds
    assert looks_again or not said, "nothing has the mover look at them again"
    assert len(said) == len(decide(owner, pods).actions)
    after = [
        replace(pod, told=f"{said[pod.uid].reason}: {said[pod.uid].message}") if pod.uid in said else pod
        for pod in pods
    ]
    assert decide(owner, after).actions == []
