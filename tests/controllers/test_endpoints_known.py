"""Which changes of a target have the endpoints of all Services looked at."""

from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from agent.clusters.target import State
from agent.controllers.endpoints.controller import EndpointsRoom


class Counted(EndpointsRoom):
    """Counts how often all Services are looked at."""

    def __init__(self, targets: Any) -> None:
        self._deps: Any = SimpleNamespace(targets=targets)
        self._known: Any = WeakKeyDictionary()
        self.looks = 0

    def _all(self, namespace: str) -> None:
        self.looks += 1


class Some:
    """A target, or what there is of them."""

    def __init__(self, **fields: object) -> None:
        self.__dict__ |= fields


def test_all_services_are_looked_at_only_for_what_changes_their_endpoints() -> None:
    target: Any = Some(key=("", "eu"), namespace="", ready=False, ranges=(), record=Some(state=State.CONNECTING))
    targets = {target.key: target}
    room = Counted(targets)

    def looked() -> bool:
        before = room.looks
        room._target_changed(target)
        return room.looks > before

    assert looked()
    target.agent = "stale"
    assert not looked()
    target.ready, target.record = True, Some(state=State.READY)
    assert looked()
    target.slow = True
    assert not looked()
    target.ready, target.record = False, Some(state=State.FAILING)
    assert looked()
    target.record = Some(state=State.UNREACHABLE)
    assert looked()
    target.ranges = ("10.0.0.0/8",)
    assert looked()
    targets.clear()
    assert looked()
    assert not looked()
