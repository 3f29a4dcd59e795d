"""Outages of targets, as observed by this process since it became leader."""

import time
from collections.abc import Callable

from agent.base.listeners import tell
from agent.clusters.target import State, Target
from agent.kube.store import Key
from agent.model.target_health import Standing
from agent.model.targetlife import LifeState, Sight, TargetLife, Terms, step

UNSEEN = TargetLife()


class TargetOutages:
    """The life of each target by the key of its Target; calls listeners for every change of state."""

    def __init__(self) -> None:
        self._lives: dict[Key, TargetLife] = {}
        self._listeners: list[Callable[[Key], None]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._lives

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Register a listener for changes of a target's state."""
        self._listeners.append(listener)

    def of(self, key: Key) -> TargetLife:
        """Return the life of a target; a target that was not checked yet counts as connected."""
        return self._lives.get(key, UNSEEN)

    def silent_for(self, key: Key) -> float:
        """Return the seconds for which a target has not answered, 0 if it answers."""
        return self.of(key).silent_for(time.monotonic())

    def has_lost(self, key: Key, standing: Standing, after: float | None) -> bool:
        """Return whether a pod must be replaced because its target is lost, as observed by this process or declared.

        :param standing: state published in the Target's status
        :param after: seconds that the pod, its owner or its namespace stays in a silent target; None if they
            set none
        """
        life = self.of(key)
        seen = standing.declared or life.silent_since is not None
        return seen and standing.has_lost(life.silent_for(time.monotonic()), after)

    def begin(self, key: Key, life: TargetLife) -> None:
        """Continue from the state that another process has recorded."""
        self._lives[key] = life

    def look(self, key: Key, target: Target | None, terms: Terms) -> TargetLife:
        """Check a target; return its life after that."""
        old, now = self.of(key), time.monotonic()
        life, seen = old, sight(target)
        if target is not None and seen is Sight.SILENT:
            life = life.heard(target.chaperons.hearing.heard)
        life = self._lives[key] = step(life, seen, terms, now)
        if life.state is not old.state:
            tell(self._listeners, key)
        return life

    def hear(self, key: Key, moment: float) -> None:
        """Record that the target's cluster was observed alive at a moment by other means than probes."""
        self._lives[key] = self.of(key).heard(moment)

    def spare(self, since: float) -> None:
        """Ignore the seconds of silence during which failover was suspended, from `since` until now."""
        now = time.monotonic()
        self._lives = {key: life.spared(since, now) for key, life in self._lives.items()}

    def forget(self, key: Key) -> None:
        """Forget a deleted Target."""
        if self._lives.pop(key, UNSEEN).state is not LifeState.CONNECTED:
            tell(self._listeners, key)


def sight(target: Target | None) -> Sight:
    """Return the state of a target's connection as one of few values."""
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
