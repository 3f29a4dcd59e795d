"""Clusters that have the endpoint of a pod: a replacement has to be in all of them, a pod that ends in none.

Read from the stores of the driver `endpointslices`. Endpoints of other drivers cannot be read, nor those of a cluster
that does not answer: one that has just fallen silent may be back in a moment, and is waited for.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.clusters.deps import Deps
from agent.clusters.stores.selecting_services import SelectingServices
from agent.clusters.target import Target
from agent.drivers.driver import BY_ADDRESSES, LOCAL
from agent.drivers.sharing import Sharing, key_of
from agent.kube.store import Key, Object
from agent.model import podranges
from agent.model.endpoints import routed
from agent.model.service import is_shared, is_shared_by_namespace

BRIEF_SECONDS = 30.0
"""Seconds that a removal waits for a target that does not answer."""


@dataclass(frozen=True)
class Reach:
    """Clusters by their virtual nodes, this one by the empty string."""

    known: frozenset[str] = frozenset()
    """Clusters in which an endpoint of the pod is ready and not terminating, for any Service."""
    missing: frozenset[str] = frozenset()
    """Clusters that should have an endpoint of the pod for any Service, and have none."""
    unseen: bool = False
    """Whether some Services or clusters are not cached yet: callers give them some seconds."""
    silent: bool = False
    """Whether a cluster that may share one of the Services has not answered for some moments."""
    stuck: frozenset[str] = frozenset()
    """Clusters of `missing` that cannot list the address: they refuse EndpointSlices, or lack a copy of the Service."""


class EndpointReach:
    """Reads the endpoints of shared Services in all clusters. Callers first wait for `services` and `here`."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._sharing = Sharing(deps)
        self._selecting = SelectingServices(deps.local)
        self.services = self._selecting.informer
        self.here = self._sharing.informer(LOCAL)
        self._listeners: list[Callable[[Key], None]] = []
        self._ready: dict[str, tuple[str, frozenset[str]]] = {}
        """By UID of an EndpointSlice: its version, and the addresses of its ready endpoints."""
        self._silent: dict[str, float] = {}
        """Since when targets do not answer, as far as anybody has noticed."""
        self.here.subscribe(self._changed)
        deps.unmarked_slices.subscribe(self._changed)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._noticed)
        deps.targets.on_detach(self._sharing.detach)
        deps.targets.on_detach(lambda target: self._ready.clear())

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Call with namespace and name of a Service whose endpoints change in any cluster."""
        self._listeners.append(listener)

    def of(self, proxy: Mapping[str, Any], services: Collection[Object] | None = None) -> Reach:
        """Return the clusters that know the endpoint of a proxy pod on a virtual node.

        :param services: Services that count; None for all that select the pod
        """
        services = self.services_of(proxy) if services is None else services
        addresses = podranges.addresses(proxy)
        home = self._home(proxy["spec"].get("nodeName") or LOCAL)
        return united([self._of_service(service, home, addresses) for service in services])

    def services_of(self, proxy: Mapping[str, Any]) -> list[Object]:
        """Return the Services that select a proxy pod."""
        metadata = proxy["metadata"]
        return self._selecting.of(metadata["namespace"], metadata.get("labels") or {})

    def _home(self, node: str) -> str:
        target = self._deps.targets.by_node(node)
        return LOCAL if target is not None and target.is_self else node

    def _of_service(self, service: Object, home: str, addresses: Collection[str]) -> Reach:
        annotations = self._deps.unwritten_marks.annotations(service)
        # Slices of a Service without the label are not watched.
        if not is_shared(annotations) or is_shared_by_namespace(annotations):
            return Reach(unseen=True)
        # After a start of the agent what a target has is not known before it is connected.
        unconnected = (
            node for node in self._sharing.serving(service.namespace) if self._deps.targets.by_node(node) is None
        )
        nodes = {home, *self._sharing.nodes_of(service.key), *unconnected}
        found = united([self._in_cluster(node, service.key, home, addresses) for node in nodes])
        return replace(found, stuck=frozenset(node for node in found.missing if self._is_stuck(node, service.key)))

    def _is_stuck(self, node: str, service: Key) -> bool:
        refuses = self._deps.endpoint_refusals.has(node, service)
        return refuses or self._sharing.place(node, service) is None

    def _in_cluster(self, node: str, service: Key, home: str, addresses: Collection[str]) -> Reach:
        target = self._deps.targets.by_node(node)
        if node != LOCAL and (target is None or not target.ready):
            since = self._silent.setdefault(node, time.monotonic())
            return Reach(silent=time.monotonic() - since < BRIEF_SECONDS)
        if not self._sharing.is_synced(node, service[0]):
            return Reach(unseen=True)
        slices = self._sharing.slices(node, service)
        if any(not self._addresses(each).isdisjoint(addresses) for each in slices):
            return Reach(known=frozenset((node,)))
        if node != home:
            rule = self._sharing.rule(service)
            if not rule.allows(self._sharing.called(home), self._sharing.called(node)):
                return Reach()
            if rule.affinity == "local" or self._sharing.driver(home, node, service) != BY_ADDRESSES:
                return Reach(unseen=True)
        return Reach(missing=frozenset((node,)))

    def _addresses(self, slice: Object) -> frozenset[str]:
        """Return addresses of the ready endpoints of a slice; cached, since each step of a moving pod needs them."""
        version, found = self._ready.get(slice.uid, ("", frozenset[str]()))
        if version != slice.version:
            found = frozenset(address for each in routed(slice.decode()).values() for address in each)
            self._ready[slice.uid] = (slice.version, found)
        return found

    def _noticed(self, target: Target) -> None:
        if target.ready and self._deps.targets.by_node(target.node_name) is target:
            self._silent.pop(target.node_name, None)
        else:
            self._silent.setdefault(target.node_name, time.monotonic())

    def _attached(self, target: Target) -> None:
        if not target.is_self:
            for informer in self._sharing.attach(target):
                informer.subscribe(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        assert changed is not None
        if new is None:
            self._ready.pop(changed.uid, None)
        service = key_of(changed) or changed.key
        for listener in self._listeners:
            listener(service)


def united(found: Collection[Reach]) -> Reach:
    """Combine results for all Services of a pod, or for all clusters of a Service."""
    known = frozenset[str]().union(*(each.known for each in found))
    missing = frozenset[str]().union(*(each.missing for each in found))
    stuck = frozenset[str]().union(*(each.stuck for each in found))
    return Reach(known, missing, any(each.unseen for each in found), any(each.silent for each in found), stuck)
