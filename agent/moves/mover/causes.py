"""Why pods should not be in the target that they are in: the one place where every cause of a move is looked at."""

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
    """What is said about a pod, wherever it is said."""

    choice: TargetChoice | None = None
    """Which targets it may be in, None for all."""
    annotations: Callable[[], tuple[Mapping[str, str], ...]] = tuple
    """Of the pod, of its owners and of its namespace, those closest to it first; read only where they matter."""


class Home(NamedTuple):
    """The target that a pod is in."""

    target: Target | None
    """None while it is not connected."""
    standing: Standing
    silent: float
    """For how many seconds it has not answered."""

    @property
    def answers(self) -> bool:
        """Whether it does."""
        return self.target is not None and self.target.ready


class Causes:
    """`changed` is called with the virtual node of a target of which something else is to be thought than before."""

    def __init__(
        self,
        deps: Deps,
        changed: Callable[[str], None],
        decided: Callable[[Iterable[str]], None],
        preferred: Callable[[str], None],
    ) -> None:
        """:param decided: called with namespaces in which a Placement has decided anew

        :param preferred: called with the virtual node of a target that pods may go back to from now on
        """
        self._deps = deps
        self._grace = deps.settings.placement_grace
        self._placements = PlacementMoves(deps, decided)
        self._fail_back = FailBack(deps, preferred)
        self._changed = changed
        self._standings: dict[str, Standing] = {}
        self._keys: dict[str, Key] = {}
        """Of the Targets, by virtual node."""
        self._ready: set[str] = set()
        self._told_ready: set[str] = set()
        """Virtual nodes of targets of which the Target says that they are ready."""
        self.targets = deps.local.either(TARGET_KINDS)
        for informer in self.targets.informers:
            informer.subscribe(self._object_changed)
        deps.target_outages.subscribe(lambda key: changed(names.virtual_node(*key)))
        deps.targets.on_change(self._target_changed)

    def home(self, node: str) -> Home:
        """The target behind a virtual node."""
        key = self._keys.get(node)
        silent = self._deps.target_outages.silent_for(key) if key is not None else 0.0
        return Home(self._deps.targets.by_node(node), self._standings.get(node, UNKNOWN), silent)

    def is_dead(self, node: str) -> bool:
        """Whether a person has certified that nothing runs there any more, and the target does not show otherwise.

        What the leader before this one has seen of it counts until this one has seen it, too.
        """
        home = self.home(node)
        return home.standing.is_dead(answers=home.answers, ready=node in self._told_ready)

    def of(self, pod: Object, levels: Levels) -> tuple[Cause, str]:
        """Why a pod that is bound to a virtual node should not be there, with more words where there are any."""
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
        """Whether a pod may go to a target, as far as what is said of both goes."""
        if self._standings.get(target.node_name, UNKNOWN).closed or (choice is not None and not choice.admits(target)):
            return False
        return not self._placements.misplaced(pod, self._cluster(target))

    def put_off(self, new: Object) -> None:
        """Put off the way back of an owner's pods to the targets that a replacement prefers and has not got."""
        home, choice = self.home(new.node_name).target, self._deps.choices.of(new)
        if home is not None and choice is not None:
            self._fail_back.put_off(new, home, choice)

    def put_off_for(self, owner: str) -> float | None:
        """Return in how many seconds an owner's pods may try again to go back, None if nothing was put off."""
        return self._fail_back.put_off_for(owner)

    def forget(self, owner: str) -> None:
        """Forget an owner without pods."""
        self._fail_back.forget(owner)

    def _unplaced(self, pod: Object, home: Target) -> str:
        """Why its Placement does not want a pod where it is; a target that has just come back may be decided again."""
        why = self._placements.misplaced(pod, self._cluster(home))
        return "" if why and grace(home.record, self._deps.clock.now(), self._grace) else why

    def _cluster(self, target: Target) -> str:
        obj = self.targets.get(target.key)
        return managed_cluster(obj) if obj is not None else ""

    def due(self, pod: Object, levels: Levels) -> float | None:
        """In how many seconds a pod's own term of failover is over, None where that is not a matter of time."""
        home = self.home(pod.node_name)
        after = first_term(levels.annotations()) if not home.answers else None
        return after - home.silent if after is not None and home.silent < after < math.inf else None

    def _suspects(self, key: Key, said: Standing) -> bool:
        """Whether something is said against a target, or it does not answer: else only a choice speaks against it."""
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
        """What is held while it does not answer goes on once it does."""
        ready = self._deps.targets.by_node(target.node_name) is target and target.ready
        if ready != (target.node_name in self._ready):
            (self._ready.add if ready else self._ready.discard)(target.node_name)
            self._note(target.node_name)
            self._changed(target.node_name)
            if ready:
                asyncio.get_running_loop().call_later(self._grace, self._changed, target.node_name)


def _is_ready(target: Mapping[str, Any]) -> bool:
    """Whether a Target says that it is ready."""
    return is_true((target.get("status") or {}).get("conditions"), "Ready")
