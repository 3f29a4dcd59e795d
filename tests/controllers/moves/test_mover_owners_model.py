"""Model of many owners that share limits. Some never start, some are not observed in a cluster, some do not fit."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import PODS
from agent.base.clock import parse
from agent.drivers.reach import BRIEF_SECONDS, Reach
from agent.kube.client import encode
from agent.kube.store import Object
from agent.moves.mover import failback, limits
from agent.moves.mover.announcements import FOLLOWS_SECONDS, Wait
from agent.moves.mover.decide import decide, is_of_interest
from agent.moves.mover.failback import FailBack
from agent.moves.mover.limits import AGAIN_SECONDS, Limits, Starting
from agent.moves.mover.view import Action, Adopt, Create, Discard, Mark, Owner, Pod, Restore
from tests.examples import seeds

STARTS = 3
"""Seconds until a pod is ready."""
CREATED = "2026-11-24T12:00:00Z"
AUTO = {"multicluster/fail-back": "auto"}
NODES = {"us": SimpleNamespace(title="us", node_name="us"), "eu": SimpleNamespace(title="eu", node_name="eu")}
PREFERS_EU: Any = SimpleNamespace(
    admits=lambda target: True, preference=lambda target: 0 if target.title == "eu" else 1
)


@dataclass
class Made:
    """A pod, with state that only the model can see."""

    pod: Pod
    target: str
    wait: Wait
    age: int = 0
    seen: Object | None = None


@dataclass
class App:
    """A Deployment, with its faults."""

    uid: str
    priority: int = 0
    starts: bool = True
    heard: bool = True
    """Whether each cluster lists its addresses."""
    refused: bool = False
    """Whether a cluster is known to be unable to list them."""
    goes_back: bool = False
    """Whether it prefers another target, and its pods are announced to move back."""
    fits: bool = True
    """Whether the preferred target has capacity."""
    room: bool = True
    """Whether any target has capacity for its replacements."""
    surge: int = 1
    pods: dict[str, Made] = field(default_factory=dict)

    def owner(self) -> Owner:
        owned = sum(made.pod.owned for made in self.pods.values())
        return Owner("ReplicaSet", self.uid, "surge", replicas=owned, surge=self.surge)


class Fleet:
    """The mover and its limits. A tick is one second."""

    def __init__(self, chance: random.Random, monkeypatch: pytest.MonkeyPatch, parallel: int = 4) -> None:
        self.now, self.random, self.parallel = 0, chance, parallel
        clock = SimpleNamespace(monotonic=lambda: float(self.now))
        monkeypatch.setattr(limits, "time", clock)
        monkeypatch.setattr(failback, "time", clock)
        loop = SimpleNamespace(get_running_loop=lambda: SimpleNamespace(call_later=lambda *_: None))
        monkeypatch.setattr(failback, "asyncio", loop)
        self.apps: list[App] = []
        self.starting = Starting(lambda node: True)
        self.limits = Limits(parallel, 2.0, self.starting)
        deps: Any = SimpleNamespace(
            settings=SimpleNamespace(fail_back_after=60.0),
            targets=SimpleNamespace(serving=lambda namespace: list(NODES.values())),
        )
        self.fail_back = FailBack(deps, lambda node: None)
        self.fail_back.note("eu", is_open=True)
        self.begun: list[str] = []
        """UIDs of apps in the order in which replacements were created."""
        self.undone: Counter[str] = Counter()

    def add(self, target: str, pods: int = 2, **fields: Any) -> App:
        app = App(f"app-{len(self.apps)}", **fields)
        for number in range(pods):
            self.make(app, Pod(f"{app.uid}-{number}", f"{app.uid}-{number}", priority=app.priority), target, age=STARTS)
        self.apps.append(app)
        return app

    def make(self, app: App, pod: Pod, target: str, *, age: int = 0) -> None:
        app.pods[pod.uid] = Made(pod, target, Wait(5.0), age)
        self.note(app, app.pods[pod.uid])

    def available(self, app: App, made: Made) -> bool:
        return made.pod.placed and made.age >= STARTS and (app.starts or not made.pod.replaces)

    def note(self, app: App, made: Made, *, gone: bool = False) -> None:
        """Report a pod to the mover, as its watch does."""
        old, made.seen = made.seen, None if gone else self.object(app, made)
        self.starting.note(old, made.seen, float(self.now), parse(CREATED))

    def object(self, app: App, made: Made) -> Object:
        reference = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "uid": app.uid, "controller": made.pod.owned}
        metadata = {"name": made.pod.name, "uid": made.pod.uid, "namespace": "shop", "creationTimestamp": CREATED}
        marks = {"multicluster/replaces": made.pod.replaces} if made.pod.replaces else {}
        ready = {"type": "Ready", "status": str(self.available(app, made))}
        body = {"metadata": {**metadata, "annotations": marks, "ownerReferences": [{**reference, "name": app.uid}]}}
        spec = {"nodeName": made.target if made.pod.placed else ""}
        return Object(PODS, encode({**body, "spec": spec, "status": {"conditions": [ready]}}))

    def tick(self) -> None:
        """Advance by one tick. The mover reconciles all owners: first in the order of its queue, then as their
        timers end."""
        for app in self.apps:
            for made in app.pods.values():
                made.age += 1
                if made.age == STARTS:
                    self.note(app, made)
        apps = sorted(self.apps, key=lambda app: -app.priority)
        if self.now:
            self.random.shuffle(apps)
        for app in apps:
            self.look(app)
        self.now += 1

    def view(self, app: App, made: Made) -> Pod:
        view = replace(made.pod, available=self.available(app, made))
        if made.target == "lost":
            return replace(view, cause="Lost", answers=False)
        if made.target == "retiring":
            return replace(view, cause="Retire")
        assert made.seen is not None
        home: Any = NODES[made.target]
        if self.fail_back.misplaced(made.seen, home, PREFERS_EU, lambda: (AUTO if app.goes_back else {},)):
            view = replace(view, cause="FailBack")
        if view.replaces and view.available:
            ap = frozenset(() if app.heard else ("ap",))
            done, _ = made.wait.look(Reach(missing=ap, stuck=ap if app.refused else frozenset()), float(self.now))
            view = replace(view, announced=done)
        return view

    def look(self, app: App) -> None:
        views = [self.view(app, made) for made in app.pods.values()]
        for action in decide(app.owner(), views).actions if any(map(is_of_interest, views)) else ():
            self.apply(app, action)

    def apply(self, app: App, action: Action) -> None:
        match action:
            case Create(old, name):
                if self.limits.may_begin(rank := (old.lost, old.priority), ("ReplicaSet", "default", app.uid, app.uid)):
                    self.limits.begin(old.uid, rank)
                    self.begun.append(app.uid)
                    new = Pod(name, f"{name}-{self.now}", owned=False, selected=False, replaces=old.uid)
                    new = replace(new, placed=app.room, waits=not app.room)
                    self.make(app, new, "eu" if old.cause == "FailBack" and app.fits else "us")
            case Mark(old, new, rank):
                app.pods[old.uid].pod = replace(app.pods[old.uid].pod, replaced_by=new.uid, rank=rank)
            case Adopt(new, old):
                # The ReplicaSet adopts it, and deletes the marked pod.
                self.note(app, app.pods.pop(old.uid), gone=True)
                app.pods[new.uid].pod = replace(app.pods[new.uid].pod, owned=True, replaces="")
                self.note(app, app.pods[new.uid])
            case Restore(old):
                self.undone[app.uid] += 1
                app.pods[old.uid].pod = replace(app.pods[old.uid].pod, replaced_by="")
            case Discard(new):
                self.undone[app.uid] += 1
                made = app.pods[new.uid]
                if action.astray:
                    assert made.seen is not None
                    home: Any = NODES[made.target]
                    self.fail_back.put_off(made.seen, home, PREFERS_EU)
                self.note(app, app.pods.pop(new.uid), gone=True)
            case _:
                pass

    def is_done(self, app: App, *targets: str) -> bool:
        return all(made.pod.owned and made.target in targets for made in app.pods.values())

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.tick()


@pytest.mark.parametrize("seed", seeds(20))
def test_a_cluster_that_takes_no_slices_stops_no_owner_and_its_own_for_a_limited_time(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    fleet = Fleet(chance, monkeypatch)
    unheard = [fleet.add("lost", heard=False, refused=chance.random() < 0.5) for _ in range(chance.randrange(4, 12))]
    healthy = [fleet.add("lost") for _ in range(10)]
    fleet.run(2 * STARTS * (len(unheard) + len(healthy)))
    assert all(fleet.is_done(app, "us") for app in healthy)
    fleet.run(2 * BRIEF_SECONDS)
    assert all(fleet.is_done(app, "us") for app in unheard if app.refused)
    fleet.run(FOLLOWS_SECONDS)
    assert all(fleet.is_done(app, "us") for app in unheard)


@pytest.mark.parametrize("seed", seeds(20))
def test_owners_that_do_not_start_hold_up_others_for_a_minute_and_those_of_higher_priority_go_first(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    fleet = Fleet(chance, monkeypatch)
    for _ in range(chance.randrange(1, 9)):
        fleet.add("lost", pods=1, starts=False, priority=9)
    for _ in range(20):
        fleet.add("lost", pods=chance.randrange(1, 4), priority=chance.randrange(4))
    fleet.run(180 + 20 * 3 * STARTS)
    assert all(fleet.is_done(app, "us") for app in fleet.apps if app.starts)
    priorities = {app.uid: app.priority for app in fleet.apps}
    order = [priorities[uid] for uid in fleet.begun]
    assert order[: fleet.parallel] == sorted(order, reverse=True)[: fleet.parallel]
    rest = [priority for priority in order if priority < 9]
    assert rest == sorted(rest, reverse=True)


def test_lost_pods_without_room_hold_up_no_move_of_another_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(random.Random(1), monkeypatch)
    stuck = [fleet.add("lost", room=False, priority=9) for _ in range(30)]
    leaving = [fleet.add("retiring", pods=1, room=number > 0) for number in range(4)]
    others = [fleet.add("lost", pods=1) for _ in range(4)]
    fleet.run(100)
    assert all(fleet.is_done(app, "us") for app in (*leaving, *others) if app.room)
    assert len(fleet.begun) < sum(len(app.pods) for app in stuck), "lost pods without room still ask"


@pytest.mark.parametrize("seed", seeds(20))
def test_an_owner_that_does_not_fit_puts_off_no_other_ones_way_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    fleet = Fleet(chance, monkeypatch, parallel=32)
    for number in range(8):
        fleet.add("us", pods=3, goes_back=True, fits=bool(number) and chance.random() < 0.7)
    fleet.run(60 + 30 * AGAIN_SECONDS)
    large = [app for app in fleet.apps if not app.fits]
    assert all(fleet.is_done(app, "eu") and not fleet.undone[app.uid] for app in fleet.apps if app.fits)
    assert all(fleet.is_done(app, "us") and fleet.undone[app.uid] == 1 for app in large), "each has tried once"
    for app in large:
        app.fits = True
    fleet.run(90)
    assert all(fleet.is_done(app, "eu") for app in large), "each has tried again"
