"""How long Services are waited for, before a pod is withdrawn and before it ends."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import PODS, SERVICES
from agent.clusters.agenthealth import AgentState
from agent.controllers.mover import withdrawal
from agent.controllers.mover.withdrawal import Withdrawal
from agent.drivers.reach import Reach
from agent.kube.client import encode
from agent.kube.store import Object

PAUSE = 5.0
SERVICE = Object(SERVICES, encode({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}))
EVERYWHERE = Reach(known=frozenset(("", "us")))
HOME, ELSEWHERE, NOWHERE = Reach(known=frozenset(("us",))), Reach(known=frozenset(("",))), Reach()


class World:
    """A pod in us, whose delegate has its labels or not, and what clusters know of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, agent: AgentState | None) -> None:
        self.now = 0.0
        monkeypatch.setattr(withdrawal, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.reach, self.labels = EVERYWHERE, {"multicluster.admiralty.io/app": "web"}
        self.asked: list[Collection[str]] = []
        placed = SimpleNamespace(chaperon=self, is_of=lambda pod: True)
        target = SimpleNamespace(agent=SimpleNamespace(state=agent) if agent is not None else None)
        self.subscribers: list[Any] = []
        informer = SimpleNamespace(subscribe=self.subscribers.append)
        deps: Any = SimpleNamespace(
            chaperons=SimpleNamespace(of=lambda key: [placed]),
            targets=SimpleNamespace(by_node=lambda node: target),
            proxies=SimpleNamespace(informer=informer),
            local=None,
        )
        services = SimpleNamespace(of=lambda namespace, labels: [SERVICE])
        monkeypatch.setattr(withdrawal, "EndpointReach", lambda deps: self)
        monkeypatch.setattr(withdrawal, "SelectingServices", lambda local: services)
        found = Withdrawal(deps, PAUSE)
        self.of = self._of
        self.withdrawal = found

    def _of(self, proxy: Any, withdrawn: Collection[str] = ()) -> Reach:
        self.asked.append(withdrawn)
        return self.reach

    def is_known_at_home(self, proxy: Any, reach: Reach) -> bool:
        return "us" in reach.known

    def settled(self, seconds: float, *, withdrawn: bool = True) -> bool:
        """Whether it is after so many seconds more."""
        self.now += seconds
        annotations = {"multicluster/withdrawn": '["app"]'} if withdrawn else {}
        return self.withdrawal.is_settled(self.pod("web-1", "o"), annotations)

    def announced(self, seconds: float) -> bool:
        """The same of a replacement."""
        self.now += seconds
        return self.withdrawal.is_announced(self.pod("web-n", "n"))

    def pod(self, name: str, uid: str) -> Object:
        metadata = {"namespace": "shop", "name": name, "uid": uid, "labels": {"app": "web"}}
        return Object(PODS, encode({"metadata": metadata, "spec": {"nodeName": "us"}}))

    def gone(self, name: str, uid: str) -> None:
        """As the watch of pods tells it."""
        for subscriber in self.subscribers:
            subscriber(self.pod(name, uid), None)


@pytest.fixture(params=[AgentState.READY])
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    return World(monkeypatch, request.param)


def test_the_pause_begins_once_nobody_leads_to_a_pod_any_more(world: World) -> None:
    assert not world.settled(0)
    world.labels = {}
    assert not world.settled(9), "clusters lead to it still"
    world.reach = NOWHERE
    assert not world.settled(1)
    assert not world.settled(4)
    assert world.settled(1)
    assert world.asked[-1] == {"app"}, "Services that select it by what it has still do not count"


def test_nothing_is_remembered_of_a_pod_that_has_moved(world: World) -> None:
    world.settled(0)
    world.announced(0)
    assert {about.split()[-1] for about in world.withdrawal._since} == {"o", "n"}
    world.gone("web-1", "o")
    assert {about.split()[-1] for about in world.withdrawal._since} <= {"n"}
    world.gone("web-n", "n")
    assert world.withdrawal._since == {}


def test_where_it_cannot_be_seen_whether_services_follow_they_have_twice_the_time(world: World) -> None:
    world.labels, world.reach = {}, Reach(unseen=True)
    assert not world.settled(0)
    assert not world.settled(9)
    assert world.settled(1)


def test_a_cluster_that_has_just_fallen_silent_is_waited_for(world: World) -> None:
    world.labels, world.reach = {}, Reach(silent=True)
    assert not world.settled(0)
    assert not world.settled(20)
    world.reach = ELSEWHERE
    assert not world.settled(1), "it leads there still, now that it answers again"
    world.reach = NOWHERE
    assert not world.settled(1)
    assert world.settled(5)


@pytest.mark.parametrize(
    ("world", "reach", "seconds"),
    [
        (None, HOME, 35),
        (AgentState.UNKNOWN, HOME, 35),
        (AgentState.READY, HOME, 305),
        (None, ELSEWHERE, 305),
        (AgentState.READY, ELSEWHERE, 305),
    ],
    indirect=["world"],
)
def test_a_target_that_takes_no_labels_off_is_not_waited_for_as_long_as_one_that_does(
    world: World, reach: Reach, seconds: float
) -> None:
    world.reach = reach
    assert not world.settled(0)
    assert not world.settled(seconds - 1)
    assert world.settled(1)


def test_a_pod_that_was_withdrawn_serves_again_before_its_replacement_goes(world: World) -> None:
    world.labels, world.reach = {}, Reach(missing=frozenset(("us",)))
    assert not world.settled(0, withdrawn=False)
    assert not world.settled(9, withdrawn=False)
    world.labels, world.reach = {"multicluster.admiralty.io/app": "web"}, EVERYWHERE
    assert not world.settled(0, withdrawn=False)
    assert world.settled(5, withdrawn=False)


def test_a_replacement_is_announced_once_every_cluster_has_it_that_can_be_asked(world: World) -> None:
    assert world.announced(0)
    world.reach = Reach(missing=frozenset(("us",)))
    assert not world.announced(99)
    world.reach = Reach(silent=True)
    assert not world.announced(29)
    world.reach = Reach(unseen=True)
    assert not world.announced(0)
    assert world.announced(5)
