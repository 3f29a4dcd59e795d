"""Replacements count as announced once every readable cluster has their address."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import PODS, SERVICES
from agent.drivers.reach import BRIEF_SECONDS, Reach
from agent.kube.client import encode
from agent.kube.store import Object
from agent.moves.mover import announcements
from agent.moves.mover.announcements import FOLLOWS_SECONDS, TOLD_SECONDS, Announcements

PAUSE = 5.0
SERVICE = Object(SERVICES, encode({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}))


class World:
    """A replacement, and the endpoints of it that clusters have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(announcements, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.reach = Reach(known=frozenset(("", "us")))
        self.subscribers: list[Any] = []
        informer = SimpleNamespace(subscribe=self.subscribers.append)
        targets = SimpleNamespace(by_node=lambda node: SimpleNamespace(title=node.upper()))
        deps: Any = SimpleNamespace(proxies=SimpleNamespace(informer=informer), local=None, targets=targets)
        services = SimpleNamespace(of=lambda namespace, labels: [SERVICE])
        monkeypatch.setattr(announcements, "EndpointReach", lambda deps: SimpleNamespace(of=lambda proxy: self.reach))
        monkeypatch.setattr(announcements, "SelectingServices", lambda local: services)
        self.announcements = Announcements(deps, PAUSE)

    def announced(self, seconds: float) -> bool:
        """Advance the clock by so many seconds; return whether the replacement is announced."""
        self.now += seconds
        return self.announcements.of(self.pod()).done

    def words(self) -> str:
        """Return the announcement about clusters that the pod to be moved lacks."""
        return self.announcements.words(self.announcements.of(self.pod()).lacking)

    def pod(self) -> Object:
        metadata = {"namespace": "shop", "name": "web-n", "uid": "n", "labels": {"app": "web"}}
        return Object(PODS, encode({"metadata": metadata, "spec": {"nodeName": "us"}}))

    def gone(self) -> None:
        """Report the pod's deletion, as the watch does."""
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


def test_a_cluster_that_does_not_follow_is_waited_for_no_longer_than_some_minutes(world: World) -> None:
    world.reach = Reach(missing=frozenset(("us",)))
    assert not world.announced(0)
    assert not world.announced(FOLLOWS_SECONDS - 1)
    assert world.announced(1)
    world.reach = Reach(missing=frozenset(("us", "eu")))
    assert not world.announced(0), "another one has its own time"
    world.reach = Reach(known=frozenset(("us", "eu")))
    assert world.announced(0)
    world.reach = Reach(missing=frozenset(("us",)))
    assert not world.announced(0), "it had the address in between"


def test_one_that_is_known_to_take_no_slices_is_waited_for_half_a_minute(world: World) -> None:
    world.reach = Reach(missing=frozenset(("us",)), stuck=frozenset(("us",)))
    assert not world.announced(0)
    assert not world.announced(BRIEF_SECONDS - 1)
    assert world.announced(1)


def test_clusters_that_are_waited_for_are_named_after_a_while_in_words_that_do_not_change(world: World) -> None:
    world.reach = Reach(missing=frozenset(("us", "")))
    assert not world.announced(0)
    assert world.words() == ""
    world.now += TOLD_SECONDS
    words = world.words()
    assert words.startswith("but its address is not listed in target US, this cluster")
    world.now += FOLLOWS_SECONDS
    assert world.words() == words
    world.reach = Reach(known=frozenset(("us", "")))
    assert world.words() == ""


def test_nothing_is_remembered_of_a_pod_that_has_moved(world: World) -> None:
    world.announced(0)
    assert list(world.announcements._waits) == ["n"]
    world.gone()
    assert world.announcements._waits == {}
