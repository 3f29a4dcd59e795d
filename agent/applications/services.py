"""Services that there are without an application, in the namespaces of applications: their pods may call them."""

from collections.abc import Callable, Iterable

from agent.api.kinds import SERVICES
from agent.clusters.deps import Deps
from agent.kube.store import Key, Object
from agent.model.p2code.detect import ports


class LiveServices:
    """`changed` is called with a namespace where one came, went, or has other ports."""

    def __init__(self, deps: Deps, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._ports: dict[str, dict[Key, frozenset[int]]] = {}
        """Of each, by namespace."""
        self.informer = deps.local.informer(SERVICES)
        self.informer.subscribe(self._service_changed)

    def of(self, namespaces: Iterable[str]) -> dict[Key, frozenset[int]]:
        """The ports of those in some namespaces."""
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
