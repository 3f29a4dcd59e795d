"""Pods that may go back to a target that they prefer, once that has been there for a while (`fail-back`)."""

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
    """`due` is called with the virtual node of a target that has been there for long enough."""

    def __init__(self, deps: Deps, due: Callable[[str], None]) -> None:
        self._deps = deps
        self._due = due
        self._after = deps.settings.fail_back_after
        self._since: dict[str, float] = {}
        """Since when targets may have new pods, as this process has seen it, by virtual node of those that may."""
        self._later: dict[str, dict[str, float]] = {}
        """Until when the way back to targets that had no room is put off: by UID of the owner, and virtual node."""

    def note(self, node: str, *, is_open: bool) -> None:
        """Whether a target is ready, and nothing is said against new pods there."""
        if not is_open:
            self._since.pop(node, None)
        elif node not in self._since:
            self._since[node] = time.monotonic()
            asyncio.get_running_loop().call_later(self._after, self._look, node)

    def put_off(self, new: Object, home: Target, choice: TargetChoice) -> None:
        """Let the owner of a replacement wait once more for the targets that it prefers: they had no room.

        :param home: the target that the replacement has got
        """
        until = time.monotonic() + self._after
        later = self._later.setdefault(owner_of(new)[3], {})
        for target in self._better(new, home, choice):
            later[target.node_name] = until

    def put_off_for(self, owner: str) -> float | None:
        """Return seconds until an owner may try the first of the targets again that had no room for its pods.

        None if it waits for none.
        """
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
        """Why a pod is to go back, in words; empty if it is not.

        :param annotations: of the pod, of its owners and of its namespace
        """
        if not choice.preference(home) or not _asks(annotations()):
            return ""
        later, now = self._later.get(owner_of(pod)[3], {}), time.monotonic()
        better = [each.title for each in self._better(pod, home, choice) if later.get(each.node_name, now) <= now]
        return f"it prefers {min(better)}, which has been there for a while" if better else ""

    def _better(self, pod: Object, home: Target, choice: TargetChoice) -> list[Target]:
        """Return the targets that a pod prefers to its own and that have been there for a while."""
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
    """Whether what is said closest to the pod has it go back."""
    said = (names.annotation(annotations, FAIL_BACK) for annotations in levels)
    return next((value for value in said if value is not None), "") == AUTO
