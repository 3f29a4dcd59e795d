"""Replacements are announced once every cluster that can be read has their address."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import PODS, SERVICES
from agent.controllers.mover import announcements
from agent.controllers.mover.announcements import Announcements
from agent.drivers.reach import Reach
from agent.kube.client import encode
from agent.kube.store import Object

PAUSE = 5.0
SERVICE = Object(SERVICES, encode({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}))


class World:
    """A replacement, and what clusters have of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(announcements, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.reach = Reach(known=frozenset(("", "us")))
        self.subscribers: list[Any] = []
        informer = SimpleNamespace(subscribe=self.subscribers.append)
        deps: Any = SimpleNamespace(proxies=SimpleNamespace(informer=informer), local=None)
        services = SimpleNamespace(of=lambda namespace, labels: [SERVICE])
        monkeypatch.setattr(announcements, "EndpointReach", lambda deps: SimpleNamespace(of=lambda proxy: self.reach))
        monkeypatch.setattr(announcements, "SelectingServices", lambda local: services)
        self.announcements = Announcements(deps, PAUSE)

    def announced(self, seconds: float) -> bool:
        """Whether it is after so many seconds more."""
        self.now += seconds
        return self.announcements.is_announced(self.pod())

    def pod(self) -> Object:
        metadata = {"namespace": "shop", "name": "web-n", "uid": "n", "labels": {"app": "web"}}
        return Object(PODS, encode({"metadata": metadata, "spec": {"nodeName": "us"}}))

    def gone(self) -> None:
        """As the watch of pods tells it."""
        for subscriber in self.subscribers:
            subscriber(self.pod(), None)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_replacement_is_announced_once_every_cluster_has_it_that_can_be_asked(world: World) -> None:
    assert world.announced(0)
    world.reach = Reach(missing=frozenset(("us",)))
    assert not world.announced(99)
    world.reach = Reach(silent=True)
    assert not world.announced(29)
    world.reach = Reach(unseen=True)
    assert not world.announced(0)
    assert world.announced(5)


def test_nothing_is_remembered_of_a_pod_that_has_moved(world: World) -> None:
    world.announced(0)
    assert list(world.announcements._since) == ["n"]
    world.gone()
    assert world.announcements._since == {}
