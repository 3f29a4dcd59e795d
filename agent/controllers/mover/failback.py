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


class FailBack:
    """`due` is called with the virtual node of a target that has been there for long enough."""

    def __init__(self, deps: Deps, due: Callable[[str], None]) -> None:
        self._deps = deps
        self._due = due
        self._after = deps.settings.fail_back_after
        self._since: dict[str, float] = {}
        """Since when targets may have new pods, as this process has seen it, by virtual node of those that may."""

    def note(self, node: str, *, is_open: bool) -> None:
        """Whether a target is ready, and nothing is said against new pods there."""
        if not is_open:
            self._since.pop(node, None)
        elif node not in self._since:
            self._begin(node)

    def put_off(self) -> None:
        """Wait as long once more, for what pods prefer has no room for them."""
        for node in self._since:
            self._begin(node)

    def _begin(self, node: str) -> None:
        self._since[node] = time.monotonic()
        asyncio.get_running_loop().call_later(self._after, self._look, node)

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
        mine = choice.preference(home)
        if not mine or not _asks(annotations()):
            return ""
        better = [
            target.title
            for target in self._deps.targets.serving(pod.namespace)
            if choice.admits(target) and choice.preference(target) < mine and self._has_stayed(target.node_name)
        ]
        return f"it prefers {min(better)}, which has been there for a while" if better else ""

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
