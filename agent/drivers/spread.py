"""Index of Services by the targets that have a copy."""

from bisect import insort
from collections.abc import Callable, Iterable

from agent.kube.informer import Informer
from agent.kube.store import Key, Object


class Spread:
    """Copies of Services by virtual node. Two Targets may point to one cluster and show the same copy."""

    def __init__(self) -> None:
        self._nodes: dict[Key, dict[str, str]] = {}
        """UID of the copy in each target, by Service."""
        self._services: dict[str, set[Key]] = {}
        """Services with copies, by namespace."""
        self._same: dict[tuple[Key, str], list[str]] = {}
        """Sorted virtual nodes that show a copy, by Service and UID of the copy."""
        self._stops: dict[str, Callable[[], None]] = {}

    def attach(self, node: str, copies: Informer) -> None:
        """Take account of a target's copies from now on."""

        def changed(old: Object | None, new: Object | None) -> None:
            if old is not None and (new is None or new.uid != old.uid):
                self._drop(node, old.key)
            if new is not None:
                self._add(node, new.key, new.uid)

        self.detach(node)
        self._stops[node] = copies.subscribe(changed)

    def detach(self, node: str) -> None:
        """Drop the copies of a removed target."""
        stop = self._stops.pop(node, None)
        if stop is not None:
            stop()
            for service in [key for key, nodes in self._nodes.items() if node in nodes]:
                self._drop(node, service)

    def services(self, namespace: str) -> Iterable[Key]:
        """Return the Services of a namespace that have a copy in any target; of all namespaces if empty."""
        return self._services.get(namespace, ()) if namespace else self._nodes.keys()

    def has(self, service: Key) -> bool:
        """Return whether a Service has a copy in any target."""
        return service in self._nodes

    def first(self, service: Key, uid: str) -> str:
        """Return the target that represents all targets with the same copy; empty if no target has it."""
        return next(iter(self._same.get((service, uid), ())), "")

    def firsts(self, service: Key) -> list[str]:
        """Targets that have a copy, one for each cluster."""
        return sorted({self.first(service, uid) for uid in self._nodes.get(service, {}).values()})

    def _add(self, node: str, service: Key, uid: str) -> None:
        nodes = self._nodes.setdefault(service, {})
        self._services.setdefault(service[0], set()).add(service)
        if nodes.get(node) != uid:
            nodes[node] = uid
            insort(self._same.setdefault((service, uid), []), node)

    def _drop(self, node: str, service: Key) -> None:
        nodes = self._nodes.get(service, {})
        uid = nodes.pop(node, None)
        if not nodes:
            self._nodes.pop(service, None)
            services = self._services.get(service[0], set())
            services.discard(service)
            if not services:
                self._services.pop(service[0], None)
        if uid is not None:
            same = self._same[service, uid]
            same.remove(node)
            if not same:
                del self._same[service, uid]
