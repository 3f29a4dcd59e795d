"""The lives of targets: which of them are cut off, and for how long, as this process has seen it since it leads."""

import time
from collections.abc import Callable

from agent.base.listeners import tell
from agent.clusters.target import State, Target
from agent.kube.store import Key
from agent.model.target_health import Standing
from agent.model.targetlife import LifeState, Sight, TargetLife, Terms, step

UNSEEN = TargetLife()


class TargetOutages:
    """The life of each target by the key of its Target; listeners are called for every change of a state."""

    def __init__(self) -> None:
        self._lives: dict[Key, TargetLife] = {}
        self._listeners: list[Callable[[Key], None]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._lives

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Call when the state of a target has changed."""
        self._listeners.append(listener)

    def of(self, key: Key) -> TargetLife:
        """What is known of a target: nothing against one that was not looked at yet."""
        return self._lives.get(key, UNSEEN)

    def silent_for(self, key: Key) -> float:
        """How many seconds a target has not answered, 0 while it does."""
        return self.of(key).silent_for(time.monotonic())

    def has_lost(self, key: Key, standing: Standing, after: float | None) -> bool:
        """Whether a pod in a target is to be replaced because that is lost, which this process has seen for itself.

        :param standing: what the Target says
        :param after: what the pod, its owner or its namespace says of how long it stays in one that does not answer
        """
        life = self.of(key)
        seen = standing.declared or life.silent_since is not None
        return seen and standing.has_lost(life.silent_for(time.monotonic()), after)

    def begin(self, key: Key, life: TargetLife) -> None:
        """Go on from what another process has known of a target."""
        self._lives[key] = life

    def look(self, key: Key, target: Target | None, terms: Terms) -> TargetLife:
        """Look at a target; returns its life from now on."""
        old, now = self.of(key), time.monotonic()
        life, seen = old, sight(target)
        if target is not None and seen is Sight.SILENT:
            life = life.heard(target.chaperons.hearing.heard)
        life = self._lives[key] = step(life, seen, terms, now)
        if life.state is not old.state:
            tell(self._listeners, key)
        return life

    def hear(self, key: Key, moment: float) -> None:
        """Record that the target's cluster gave a sign of life at a moment, by another way than probes."""
        self._lives[key] = self.of(key).heard(moment)

    def spare(self, since: float) -> None:
        """Failover was held since a moment, and is no more: seconds of silence meanwhile do not count."""
        now = time.monotonic()
        self._lives = {key: life.spared(since, now) for key, life in self._lives.items()}

    def forget(self, key: Key) -> None:
        """There is no such Target any more."""
        if self._lives.pop(key, UNSEEN).state is not LifeState.CONNECTED:
            tell(self._listeners, key)


def sight(target: Target | None) -> Sight:
    """What a look at a target shows."""
    if target is None:
        return Sight.UNKNOWN
    if target.ready:
        return Sight.READY
    if target.record.silent:
        return Sight.SILENT
    unknown = target.record.state is State.UNREACHABLE or (
        target.record.state is State.CONNECTING and not target.identified
    )
    return Sight.UNKNOWN if unknown else Sight.ANSWERS
