"""Changes of a target, and the Services whose endpoints they requeue."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from agent.clusters.target import Record, State
from agent.kube.store import Key
from agent.services.endpoints.controller import At, EndpointsController

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Counted(EndpointsController):
    """Records which Services are requeued, and for which targets."""

    def __init__(self, targets: Any) -> None:
        self._deps: Any = SimpleNamespace(targets=targets)
        self._known: Any = WeakKeyDictionary()
        self.synced = False
        self._sharing: Any = SimpleNamespace(is_synced=lambda node, namespace="": self.synced)
        self.looks: list[str] = []

    def _all(self, namespace: str) -> None:
        self.looks.append("all")

    def _everywhere(self, service: Key, *, but: str | None = None) -> Iterable[At]:
        return (("eu", *service), ("us", *service))

    def _of(self, node: str, keys: Callable[[Key], Iterable[At]]) -> None:
        self.looks.append("its own, " + " and ".join(key[0] for key in keys(("team", "web"))))


class Some:
    """A target, with only the fields that a test gives."""

    def __init__(self, **fields: object) -> None:
        self.__dict__ |= fields


def test_services_are_looked_at_only_where_something_changes_their_endpoints() -> None:
    record = Record(State.CONNECTING, "", NOW)
    target: Any = Some(key=("", "eu"), node_name="eu", namespace="", ready=False, ranges=(), record=record)
    targets = {target.key: target}
    controller = Counted(targets)

    def looked() -> list[str]:
        controller.looks.clear()
        controller._target_changed(target)
        return list(controller.looks)

    assert looked() == ["all"]
    target.agent = "stale"
    assert looked() == []
    target.ready, target.record = True, Record(State.READY, "", NOW)
    assert looked() == ["its own, eu"], "it can be written to"
    controller.synced = True
    assert looked() == ["all"], "what it does not have is not there"
    target.slow = True
    assert looked() == []
    target.ready, target.record = False, Record(State.FAILING, "", NOW)
    assert looked() == ["its own, eu"]
    target.record = Record(State.UNREACHABLE, "", NOW, unanswered_since=NOW)
    assert looked() == ["its own, eu and us"], "its endpoints stop counting elsewhere"
    target.ranges = ("10.0.0.0/8",)
    assert looked() == ["its own, eu and us"]
    targets.clear()
    assert looked() == ["all"]
    assert looked() == []
