"""Capacity of the targets that bundles are placed in, computed for each call: calls are rare."""

from collections.abc import Callable

from agent.api import names
from agent.api.kinds import NODES, TARGET_KINDS
from agent.applications.fit import Capacity
from agent.clusters.deps import Deps
from agent.clusters.target import State, Target
from agent.clusters.target_info import target_info_of
from agent.clusters.unconnected_target import unconnected_target
from agent.kube.store import Object
from agent.model.podstate import ENDED
from agent.model.requests import held_by


class Capacities:
    """Capacity by Target. Calls `changed` when a target changes, as it may have enough capacity now."""

    def __init__(self, deps: Deps, changed: Callable[[], None]) -> None:
        self._deps = deps
        self._changed = changed
        self.nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self.nodes.subscribe(lambda old, new: changed())
        for informer in deps.local.either(TARGET_KINDS).informers:
            informer.subscribe(lambda old, new: changed())
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(lambda target: changed())

    def of(self, obj: Object) -> Capacity | None:
        """Return the capacity of a Target or ClusterTarget; None until its connection and summary have been checked."""
        target = self._deps.targets.get(obj.key)
        if target is None:
            told = unconnected_target(obj)
            return Capacity(target_info_of(told, None, None, obj)) if told.known and not told.ready else None
        if target.record.state is State.CONNECTING or (target.ready and not _is_read(target)):
            return None
        node = self.nodes.store.get(("", target.node_name))
        info = target_info_of(target, node, target.summary, obj)
        return Capacity(info, self._held(target) if info.limits else {})

    def _held(self, target: Target) -> dict[str, int]:
        bound = self._deps.proxies.bound_to(target.node_name)
        return held_by(pod.decode() for pod in bound if pod.phase not in ENDED)

    def _attached(self, target: Target) -> None:
        target.summaries.subscribe(lambda old, new: self._changed())


def _is_read(target: Target) -> bool:
    """Return True if the target's ClusterSummaries have been listed, or cannot be listed."""
    return target.summaries.synced.is_set() or target.summaries.error is not None
