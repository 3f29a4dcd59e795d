"""Existing Services in the namespaces of applications: pods of applications may call them."""

from collections.abc import Callable, Iterable

from agent.api.kinds import SERVICES
from agent.clusters.deps import Deps
from agent.kube.store import Key, Object
from agent.model.p2code.detect import ports


class LiveServices:
    """Ports of Services by namespace. Calls `changed` with a namespace whose Services or ports changed."""

    def __init__(self, deps: Deps, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._ports: dict[str, dict[Key, frozenset[int]]] = {}
        """Ports by namespace and Service."""
        self.informer = deps.local.informer(SERVICES)
        self.informer.subscribe(self._service_changed)

    def of(self, namespaces: Iterable[str]) -> dict[Key, frozenset[int]]:
        """Return the ports of the Services in these namespaces."""
        return {key: each for namespace in namespaces for key, each in self._ports.get(namespace, {}).items()}

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        there = self._ports.setdefault(obj.namespace, {})
        before, now = there.pop(obj.key, None), ports(new.decode()) if new is not None else None
        if now is not None:
            there[obj.key] = now
        if not there:
            del self._ports[obj.namespace]
        if now != before:
            self._changed(obj.namespace)
