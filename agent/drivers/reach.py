"""Which clusters know the endpoint of a pod: asked before another one that serves the same may end.

Read from the stores of the driver `endpointslices`. What other drivers tell is not seen here, nor is what a cluster
that does not answer knows.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from agent.clusters.deps import Deps
from agent.clusters.selecting import SelectingServices
from agent.clusters.target import Target
from agent.drivers.driver import HERE
from agent.drivers.endpointslices import EndpointSlices
from agent.drivers.sharing import Sharing, key_of
from agent.kube.store import Key, Object
from agent.model.endpoints import ready
from agent.model.service import is_shared, is_shared_by_namespace


@dataclass(frozen=True)
class Reach:
    """Clusters by their virtual nodes, this one by the empty string."""

    known: frozenset[str] = frozenset()
    """Where an endpoint of the pod is ready, for any Service."""
    missing: frozenset[str] = frozenset()
    """Where one should be, for any Service, and is not."""
    unseen: bool = False
    """Whether there are Services or clusters of which it cannot be seen: they are given some seconds."""


class EndpointReach:
    """Reads what every cluster has of the Services that it shares. Whoever asks waits for `services` and `here`."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._sharing = Sharing(deps)
        self._selecting = SelectingServices(deps.local)
        self.services = self._selecting.informer
        self.here = self._sharing.here()
        self._listeners: list[Callable[[Key], None]] = []
        self.here.subscribe(self._changed)
        deps.targets.on_attach(self._attached)
        deps.targets.on_detach(self._sharing.detach)

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Call with namespace and name of a Service whose endpoints change in any cluster."""
        self._listeners.append(listener)

    def of(self, proxy: Mapping[str, Any]) -> Reach:
        """Where the endpoint of a proxy pod that is bound to a virtual node is known."""
        metadata = proxy["metadata"]
        addresses = {each["ip"] for each in (proxy.get("status") or {}).get("podIPs") or () if each.get("ip")}
        home = self._home(proxy["spec"].get("nodeName") or HERE)
        services = self._selecting.of(metadata["namespace"], metadata.get("labels") or {})
        return united([self._of_service(service, home, addresses) for service in services])

    def _home(self, node: str) -> str:
        target = self._deps.targets.by_node(node)
        return HERE if target is not None and target.is_self else node

    def _of_service(self, service: Object, home: str, addresses: Collection[str]) -> Reach:
        annotations = service.annotations
        if not is_shared(annotations) or is_shared_by_namespace(annotations):
            return Reach(unseen=True)
        nodes = {home, *self._sharing.nodes_of(service.key)}
        return united([self._in_cluster(node, service.key, home, addresses) for node in nodes])

    def _in_cluster(self, node: str, service: Key, home: str, addresses: Collection[str]) -> Reach:
        target = self._deps.targets.by_node(node)
        if node != HERE and (target is None or not target.ready):
            return Reach()
        if not self._sharing.is_synced(node):
            return Reach(unseen=True)
        slices = self._sharing.slices(node, service)
        if any(has_ready(each.decode(), addresses) for each in slices):
            return Reach(known=frozenset((node,)))
        if node != home and self._sharing.driver(home, node) != EndpointSlices.reason:
            return Reach(unseen=True)
        return Reach(missing=frozenset((node,)))

    def _attached(self, target: Target) -> None:
        if not target.is_self:
            for informer in self._sharing.attach(target):
                informer.subscribe(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        assert changed is not None
        service = key_of(changed) or changed.key
        for listener in self._listeners:
            listener(service)


def has_ready(slice: Mapping[str, Any], addresses: Collection[str]) -> bool:
    """Whether an EndpointSlice has one of these addresses as a ready endpoint."""
    return any(not found.isdisjoint(addresses) for found in map(set, ready(slice).values()))


def united(found: Collection[Reach]) -> Reach:
    """What is so for all Services of a pod, or all clusters of a Service."""
    known = frozenset[str]().union(*(each.known for each in found))
    missing = frozenset[str]().union(*(each.missing for each in found))
    return Reach(known, missing, any(each.unseen for each in found))
