"""Causes of moves: decides why a pod should leave its target. All causes are checked in this module."""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from agent.api import names
from agent.api.conditions import is_true
from agent.api.kinds import TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.health.record import grace
from agent.clusters.managed_cluster import managed_cluster
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model.target_health import Standing, first_term, standing
from agent.model.targetchoice import TargetChoice
from agent.moves.mover.failback import FailBack
from agent.moves.mover.placements import PlacementMoves
from agent.moves.mover.view import Cause

UNKNOWN = Standing()


class Levels(NamedTuple):
    """Rules for the targets of a pod, from the annotations of the pod, its owners and its namespace."""

    choice: TargetChoice | None = None
    """Targets that admit the pod; None for all."""
    annotations: Callable[[], tuple[Mapping[str, str], ...]] = tuple
    """Returns the annotations of the pod, its owners and its namespace, in this order. Called only if they matter."""


class Home(NamedTuple):
    """State of a pod's target."""

    target: Target | None
    """None while it is not connected."""
    standing: Standing
    silent: float
    """Seconds since its last answer; 0 if it answers."""

    @property
    def answers(self) -> bool:
        """Whether it is connected and ready."""
        return self.target is not None and self.target.ready


class Causes:
    """Decides why pods should leave their targets.

    Calls `changed` with the virtual node of a target if the causes of its pods may have changed.
    """

    def __init__(
        self,
        deps: Deps,
        changed: Callable[[str], None],
        decided: Callable[[Iterable[str]], None],
        preferred: Callable[[str], None],
    ) -> None:
        """:param decided: called with the namespaces of Placements whose decisions have changed

        :param preferred: called with the virtual node of a target that pods may return to from now on
        """
        self._deps = deps
        self._grace = deps.settings.placement_grace
        self._placements = PlacementMoves(deps, decided)
        self._fail_back = FailBack(deps, preferred)
        self._changed = changed
        self._standings: dict[str, Standing] = {}
        self._keys: dict[str, Key] = {}
        """Keys of the Targets by virtual node."""
        self._ready: set[str] = set()
        self._told_ready: set[str] = set()
        """Virtual nodes of Targets whose condition Ready is True."""
        self.targets = deps.local.either(TARGET_KINDS)
        for informer in self.targets.informers:
            informer.subscribe(self._object_changed)
        deps.target_outages.subscribe(lambda key: changed(names.virtual_node(*key)))
        deps.targets.on_change(self._target_changed)

    def home(self, node: str) -> Home:
        """Return the state of the target behind a virtual node."""
        key = self._keys.get(node)
        silent = self._deps.target_outages.silent_for(key) if key is not None else 0.0
        return Home(self._deps.targets.by_node(node), self._standings.get(node, UNKNOWN), silent)

    def is_dead(self, node: str) -> bool:
        """Return True if a user has certified that nothing runs in the target, which neither answers nor is Ready.

        A condition Ready written by the previous leader counts until this leader has connected.
        """
        home = self.home(node)
        return home.standing.is_dead(answers=home.answers, ready=node in self._told_ready)

    def of(self, pod: Object, levels: Levels) -> tuple[Cause, str]:
        """Return why a pod should leave its virtual node, and a specific text for it; both empty if well placed."""
        if not pod.node_name:
            return "", ""
        home = self.home(pod.node_name)
        key = self._keys.get(pod.node_name)
        if key is not None and self._suspects(key, home.standing):
            after = first_term(levels.annotations())
            if self._deps.target_outages.has_lost(key, home.standing, after):
                return "Lost", ""
        if home.standing.retiring:
            return "Retire", ""
        if levels.choice is not None and home.target is not None and (why := levels.choice.misplaced(home.target)):
            return "Targets", f"its target {home.target.title} is {why}"
        if home.target is not None and (why := self._unplaced(pod, home.target)):
            return "Placement", why
        if levels.choice is not None and home.target is not None and home.standing == UNKNOWN:
            why = self._fail_back.misplaced(pod, home.target, levels.choice, levels.annotations)
            return ("FailBack", why) if why else ("", "")
        return "", ""

    def admits(self, pod: Object, target: Target, choice: TargetChoice | None) -> bool:
        """Return True if a pod's rules and its Placement admit a target, and the target is open to new pods."""
        if self._standings.get(target.node_name, UNKNOWN).closed or (choice is not None and not choice.admits(target)):
            return False
        return not self._placements.misplaced(pod, self._cluster(target))

    def put_off(self, new: Object) -> None:
        """Delay the return of an owner's pods to targets that a replacement prefers but was not bound to."""
        home, choice = self.home(new.node_name).target, self._deps.choices.of(new)
        if home is not None and choice is not None:
            self._fail_back.put_off(new, home, choice)

    def put_off_for(self, owner: str) -> float | None:
        """Return the seconds until an owner's pods may try to return again; None if no return is delayed."""
        return self._fail_back.put_off_for(owner)

    def forget(self, owner: str) -> None:
        """Forget an owner without pods."""
        self._fail_back.forget(owner)

    def _unplaced(self, pod: Object, home: Target) -> str:
        """Return why its Placement excludes a pod's cluster; empty if it does not.

        Also empty for a target that has just returned: its Placement may select it again.
        """
        why = self._placements.misplaced(pod, self._cluster(home))
        return "" if why and grace(home.record, self._deps.clock.now(), self._grace) else why

    def _cluster(self, target: Target) -> str:
        obj = self.targets.get(target.key)
        return managed_cluster(obj) if obj is not None else ""

    def due(self, pod: Object, levels: Levels) -> float | None:
        """Return the seconds until a pod's own failover time ends; None if no move depends on that."""
        home = self.home(pod.node_name)
        after = first_term(levels.annotations()) if not home.answers else None
        return after - home.silent if after is not None and home.silent < after < math.inf else None

    def _suspects(self, key: Key, said: Standing) -> bool:
        """Return True if a target does not answer, or if annotations or conditions of its Target restrict it."""
        return said != UNKNOWN or not self._deps.target_outages.of(key).answers

    def _object_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        node = names.virtual_node(*obj.key)
        if new is not None:
            self._keys[node] = obj.key
        else:
            self._keys.pop(node, None)
        manifest = new.decode() if new is not None else {}
        before, was_ready = self._standings.pop(node, UNKNOWN), node in self._told_ready
        after, is_ready = standing(manifest), _is_ready(manifest)
        if after != UNKNOWN:
            self._standings[node] = after
        (self._told_ready.add if is_ready else self._told_ready.discard)(node)
        self._note(node)
        if before != after or was_ready != is_ready:
            self._changed(node)

    def _note(self, node: str) -> None:
        is_open = node in self._ready and self._standings.get(node, UNKNOWN) == UNKNOWN
        self._fail_back.note(node, is_open=is_open)

    def _target_changed(self, target: Target) -> None:
        """Re-check the pods of a target that has begun or ceased to answer."""
        ready = self._deps.targets.by_node(target.node_name) is target and target.ready
        if ready != (target.node_name in self._ready):
            (self._ready.add if ready else self._ready.discard)(target.node_name)
            self._note(target.node_name)
            self._changed(target.node_name)
            if ready:
                asyncio.get_running_loop().call_later(self._grace, self._changed, target.node_name)


def _is_ready(target: Mapping[str, Any]) -> bool:
    """Return True if the condition Ready of a Target is True."""
    return is_true((target.get("status") or {}).get("conditions"), "Ready")
