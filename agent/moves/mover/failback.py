"""Finds pods that may return to a preferred target once it has been ready for `--fail-back-after` (`fail-back`)."""

import asyncio
import time
from collections.abc import Callable, Mapping

from agent.api import names
from agent.api.names.lifecycle import AUTO, FAIL_BACK
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.store import Object
from agent.model.targetchoice import TargetChoice
from agent.moves.mover.facts import owner_of


class FailBack:
    """Calls `due` with the virtual node of a target that has been open for long enough."""

    def __init__(self, deps: Deps, due: Callable[[str], None]) -> None:
        self._deps = deps
        self._due = due
        self._after = deps.settings.fail_back_after
        self._since: dict[str, float] = {}
        """Moment from which a target has been open to new pods, by virtual node; closed targets are missing."""
        self._later: dict[str, dict[str, float]] = {}
        """Moment until which pods do not return to a target without capacity, by UID of the owner and virtual node."""

    def note(self, node: str, *, is_open: bool) -> None:
        """Record whether a target is ready and open to new pods."""
        if not is_open:
            self._since.pop(node, None)
        elif node not in self._since:
            self._since[node] = time.monotonic()
            asyncio.get_running_loop().call_later(self._after, self._look, node)

    def put_off(self, new: Object, home: Target, choice: TargetChoice) -> None:
        """Delay the return of an owner's pods to preferred targets without capacity for its replacement.

        :param home: target of the replacement
        """
        until = time.monotonic() + self._after
        later = self._later.setdefault(owner_of(new)[3], {})
        for target in self._better(new, home, choice):
            later[target.node_name] = until

    def put_off_for(self, owner: str) -> float | None:
        """Return the seconds until an owner's pods may try the first delayed target again; None if none is delayed."""
        now = time.monotonic()
        later = {node: until for node, until in self._later.get(owner, {}).items() if until > now}
        if not later:
            self.forget(owner)
            return None
        self._later[owner] = later
        return min(later.values()) - now

    def forget(self, owner: str) -> None:
        """Forget an owner."""
        self._later.pop(owner, None)

    def misplaced(
        self,
        pod: Object,
        home: Target,
        choice: TargetChoice,
        annotations: Callable[[], tuple[Mapping[str, str], ...]],
    ) -> str:
        """Return why a pod should return to a preferred target; empty if it should stay.

        :param home: the pod's target
        :param annotations: returns those of the pod, of its owners and of its namespace, in this order
        """
        if not choice.preference(home) or not _asks(annotations()):
            return ""
        later, now = self._later.get(owner_of(pod)[3], {}), time.monotonic()
        better = [each.title for each in self._better(pod, home, choice) if later.get(each.node_name, now) <= now]
        return f"it prefers {min(better)}, which has been there for a while" if better else ""

    def _better(self, pod: Object, home: Target, choice: TargetChoice) -> list[Target]:
        """Return the targets that a pod prefers to its own and that have been open for long enough."""
        mine = choice.preference(home)
        return [
            target
            for target in self._deps.targets.serving(pod.namespace)
            if choice.admits(target) and choice.preference(target) < mine and self._has_stayed(target.node_name)
        ]

    def _has_stayed(self, node: str) -> bool:
        since = self._since.get(node)
        return since is not None and time.monotonic() - since >= self._after

    def _look(self, node: str) -> None:
        if self._has_stayed(node):
            self._due(node)


def _asks(levels: tuple[Mapping[str, str], ...]) -> bool:
    """Return True if the annotation `fail-back` closest to the pod is `auto`."""
    said = (names.annotation(annotations, FAIL_BACK) for annotations in levels)
    return next((value for value in said if value is not None), "") == AUTO
