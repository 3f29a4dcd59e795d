"""Refusing targets: not ready for all pods, except for the pod whose turn it is to try one."""

import asyncio
from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from agent.clusters.health.refusal_backoff import LONGEST_PAUSE_SECONDS
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Target
from agent.kube.store import Object
from agent.ranking.snapshot import TargetInfo

_LEAST_SECONDS = 0.5


def state(reason: str) -> str:
    """Return the state of a target that refuses pods and gets no more of them for now."""
    return f"it refuses pods: {reason}"


class RefusingTargets:
    """Calls `changed` when waiting pods may try such a target again, and when it no longer refuses pods."""

    def __init__(self, targets: Targets, chaperons: Chaperons, changed: Callable[[], None]) -> None:
        self._targets = targets
        self._chaperons = chaperons
        self._changed = changed
        self._epochs: dict[str, int] = {}
        """Epoch of the target's backoff at its last change, by virtual node."""
        self.nodes: set[str] = set()
        """Virtual nodes of targets that refuse pods."""
        self._unready: dict[str, tuple[TargetInfo, TargetInfo]] = {}
        """Target info of each refusing target, and its copy marked as not ready."""
        self._timer: asyncio.TimerHandle | None = None
        targets.on_change(self._target_changed)
        targets.on_detach(self._detached)

    def seen_by(self, pod: Object, targets: Sequence[TargetInfo], tried: Container[str]) -> Sequence[TargetInfo]:
        """Return the targets as one pod may use them; this may give the pod its turn. A pod with a chaperon in a target
        needs none.

        :param tried: virtual nodes of targets that could not take the pod
        """
        there = {each.target.node_name for each in self._chaperons.of(pod.key)}
        return [
            info if info.node_name in there else self._as_seen(pod, info, info.node_name in tried) for info in targets
        ]

    def end_trials(self, pod: Object, but: Container[str] = ()) -> None:
        """End a pod's trials of refusing targets, except on the virtual nodes in `but`."""
        for node in self.nodes:
            target = self._targets.by_node(node)
            if target is not None and node not in but:
                target.refusal_backoff.leave_turn(pod.namespace, pod.uid)

    def _as_seen(self, pod: Object, info: TargetInfo, before: bool) -> TargetInfo:
        target = self._targets.by_node(info.node_name) if info.node_name in self.nodes else None
        reason = target.refusal_backoff.refuses(pod.namespace) if target is not None else ""
        if target is None or not reason or target.refusal_backoff.admits(pod.namespace, pod.uid, before=before):
            return info
        known = self._unready.get(info.node_name)
        if known is None or known[0] is not info or known[1].state != state(reason):
            known = self._unready[info.node_name] = (info, replace(info, ready=False, state=state(reason)))
        return known[1]

    def _target_changed(self, target: Target) -> None:
        node, epoch = target.node_name, target.refusal_backoff.epoch
        if self._targets.by_node(node) is not target or self._epochs.get(node, 0) == epoch:
            return
        self._epochs[node] = epoch
        if target.refusal_backoff.refusal is not None:
            self.nodes.add(node)
        else:
            self.nodes.discard(node)
            self._unready.pop(node, None)
        self._changed()
        self._set_timer()

    def _detached(self, target: Target) -> None:
        self._epochs.pop(target.node_name, None)
        self.nodes.discard(target.node_name)
        self._unready.pop(target.node_name, None)

    def _set_timer(self) -> None:
        targets = [target for node in self.nodes if (target := self._targets.by_node(node)) is not None]
        left = [due for target in targets if (due := target.refusal_backoff.next_turn) is not None]
        if left and self._timer is None:
            # Pods that were just woken and do not try the target are not woken again at once.
            delay = max(min(left), _LEAST_SECONDS) if min(left) > 0 else LONGEST_PAUSE_SECONDS
            self._timer = asyncio.get_running_loop().call_later(delay, self._due)

    def _due(self) -> None:
        self._timer = None
        if self.nodes:
            self._changed()
            self._set_timer()
