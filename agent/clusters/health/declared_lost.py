"""Targets that a user has declared lost: all their pods count as stopped, so nothing waits for them."""

from collections.abc import Callable

from agent.api import names
from agent.api.kinds import TARGET_KINDS
from agent.api.names import lifecycle
from agent.clusters.cluster import Cluster
from agent.kube.store import Object
from agent.model.target_health import is_set


class DeclaredLost:
    """Finalizers of lost targets. `changed` receives the finalizer of a target whose declaration has changed."""

    def __init__(self, local: Cluster, changed: Callable[[str], None]) -> None:
        self.finalizers: frozenset[str] = frozenset()
        self._changed = changed
        for informer in local.either(TARGET_KINDS).informers:
            informer.subscribe(self._target_changed)

    def _target_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        finalizer = names.finalizer(*obj.key)
        lost = new is not None and is_set(new.annotations, lifecycle.LOST)
        if lost != (finalizer in self.finalizers):
            self.finalizers ^= {finalizer}
            self._changed(finalizer)
