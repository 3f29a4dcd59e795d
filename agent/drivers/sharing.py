"""Clusters that share a Service, and their EndpointSlices: from the stores alone."""

from collections.abc import Callable

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, ENDPOINT_SLICES, SERVICES
from agent.api.names import mcs
from agent.api.names.links import BY_GATEWAY, GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_PEER
from agent.clusters.cluster import Cluster
from agent.clusters.deps import Deps
from agent.clusters.health.record import silent_in
from agent.clusters.target import Target
from agent.drivers.clusters import Clusters, are_networks_new
from agent.drivers.driver import BY_ADDRESSES, LOCAL, Place
from agent.drivers.spread import Spread
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.endpoints import HEADLESS_LABEL, is_mirror, is_own
from agent.model.links import reason_of
from agent.model.pod_networks import NOTHING_TOLD, Networks, read
from agent.model.service import is_native, is_shared, is_shared_by_namespace
from agent.model.serviceimports import Hosts, hosts, ports_exported
from agent.model.servicerule import ANYTHING, Rule
from agent.model.sharedcopies import linked_service

_BY_SERVICE, _OWN, _NAMESPACE, _MIRRORS = "service", "own", "namespace", "mirrors"
_NOT_BY_HAND = ("", BY_GATEWAY)
"""Drivers that do not serve endpoints which a user has written."""


def key_of(slice: Object) -> Key | None:
    """Return the Service that an EndpointSlice belongs to."""
    name = slice.labels.get(names.LABEL_SERVICE_NAME)
    return (slice.namespace, name) if name else None


def _service_of(slice: Object) -> list[str]:
    key = key_of(slice)
    return ["/".join(key)] if key is not None else []


def _service_of_own(slice: Object) -> list[str]:
    return _service_of(slice) if is_own(slice.labels) else []


def slices_in(deps: Deps, target: Target | None) -> Informer:
    """Return the informer of slices of shared Services. They inherit the Service's labels; mirrors have them, too."""
    if target is None:
        return slices_by_service(deps.local.informer(ENDPOINT_SLICES, labels=f"{names.LABEL_GLOBAL}=true"))
    return slices_by_service(target.informer(ENDPOINT_SLICES, labels=names.children_of(deps.cluster_uid)))


def slices_by_service(informer: Informer) -> Informer:
    """Index EndpointSlices by their Service, and return the informer."""
    informer.store.index(_BY_SERVICE, _service_of)
    informer.store.index(_OWN, _service_of_own)
    informer.store.index(_MIRRORS, lambda slice: (slice.namespace,) if is_mirror(slice.labels) else ())
    return informer


def headless_slices(cluster: Cluster | Target) -> Informer:
    """Return the informer of slices of all headless Services in a cluster."""
    return slices_by_service(cluster.informer(ENDPOINT_SLICES, labels=HEADLESS_LABEL))


def gateway_slices(cluster: Cluster | Target) -> Informer:
    """Return the informer of slices that point to a cluster's own gateways."""
    managed = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
    return slices_by_service(cluster.informer(ENDPOINT_SLICES, labels=managed))


def own_slices(informer: Informer, service: Key) -> list[Object]:
    """Return the slices of a Service, without those of the agent."""
    return informer.store.by_index(_OWN, "/".join(service))


class Sharing(Clusters):
    """The stores of all clusters as one."""

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self.services = deps.local.informer(SERVICES)
        self.services.store.index(_NAMESPACE, lambda service: (service.namespace,))
        self._slices: dict[str, Informer] = {LOCAL: slices_in(deps, None)}
        self._unmarked = deps.unmarked_slices
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={names.SUMMARY_NAME}")
        self._copies: dict[str, Informer] = {}
        self._headless = {LOCAL: headless_slices(deps.local)} if deps.settings.mcs else {}
        self._at_gateways = {LOCAL: gateway_slices(deps.local)} if deps.settings.link_namespaces else {}
        self._spread = Spread()

    def attach(self, target: Target) -> tuple[Informer, Informer]:
        """Begin to read a target: its copies and slices."""
        node = target.node_name
        mine = names.children_of(self.deps.cluster_uid)
        self._copies[node], self._slices[node] = target.informer(SERVICES, labels=mine), slices_in(self.deps, target)
        self._spread.attach(node, self._copies[node])
        if self.deps.settings.mcs:
            self._headless[node] = headless_slices(target)
        if self.deps.settings.link_namespaces:
            self._at_gateways[node] = gateway_slices(target)
        return self._copies[node], self._slices[node]

    def detach(self, target: Target) -> None:
        """Drop the state of a removed target."""
        super().detach(target)
        self._spread.detach(target.node_name)
        self._copies.pop(target.node_name, None)
        self._slices.pop(target.node_name, None)
        self._headless.pop(target.node_name, None)
        self._at_gateways.pop(target.node_name, None)

    def place(self, node: str, service: Key) -> Place | None:
        """Return a Service in a cluster; None if it does not exist, or is not cached yet."""
        if node == LOCAL:
            original = self.services.store.get(service)
            return Place(LOCAL, self.deps.local.port, service, original.uid) if original is not None else None
        target, copies = self.deps.targets.by_node(node), self._copies.get(node)
        copy = copies.store.get(service) if copies is not None else None
        return Place(node, target.port, service, copy.uid) if target is not None and copy is not None else None

    def is_shared(self, service: Key) -> bool:
        """Return whether a local Service is shared."""
        original = self.services.store.get(service)
        if original is None or original.deleting:
            return False
        return is_shared(self.deps.unwritten_marks.annotations(original))

    def is_native(self, service: Key) -> bool:
        """Return True if the source's own slices of a Service hold its proxy pods."""
        original = self.services.store.get(service)
        return original is not None and is_native(self.deps.unwritten_marks.annotations(original))

    def is_at_home(self, service: Key) -> bool:
        """Return whether all pods of a Service are local: endpoints of its copies in targets are ignored."""
        original = self.services.store.get(service)
        if original is None:
            return False
        return is_shared_by_namespace(self.deps.unwritten_marks.annotations(original))

    def may_be_exported(self, service: Key) -> bool:
        """Return whether the namespace is enabled, a target still has pods of it, or another cluster the Service."""
        in_use = self.deps.namespaces.is_in_use(service[0])
        return in_use or self._spread.has(service)

    def nodes_of(self, service: Key) -> list[str]:
        """Return the clusters that share a Service, each once: two Targets of one cluster find the same copy in it."""
        here = self.place(LOCAL, service)
        there = self._spread.firsts(service)
        if here is None:
            return there
        # A Target may point to the local cluster.
        same = self._spread.first(service, here.uid)
        return [LOCAL, *(node for node in there if node != same)]

    def stands_for(self, place: Place) -> bool:
        """Return whether a place represents its cluster, for clusters with several Targets."""
        if place.node == LOCAL:
            return True
        here = self.place(LOCAL, place.service)
        return self._spread.first(place.service, place.uid) == place.node and (here is None or here.uid != place.uid)

    def copied_to(self, node: str) -> list[Key]:
        """Services that have a copy in a target."""
        return list(self._copies[node].store.keys()) if node in self._copies else []

    def is_synced(self, node: str, namespace: str = "") -> bool:
        """Return True if the stores of a cluster may be believed.

        :param namespace: whose slices matter, empty if their stores do not
        """
        copies, slices = self._copies.get(node), self._slices.get(node)
        read = slices is not None and slices.synced.is_set() and (copies is None or copies.synced.is_set())
        return read and (node != LOCAL or self._unmarked.is_known(namespace))

    def slices(self, node: str, service: Key) -> list[Object]:
        """Return all slices of a Service in a cluster, those of the agent included."""
        if node not in self._slices:
            return []
        return self.informer(node, service).store.by_index(_BY_SERVICE, "/".join(service))

    def mirrors(self, namespace: str) -> int:
        """Return how many mirrored slices a namespace has in all clusters."""
        return sum(informer.store.count(_MIRRORS, namespace) for informer in self._slices.values())

    def own_slices(self, node: str, service: Key) -> list[Object]:
        """Return the slices of a Service in a cluster, without those of the agent."""
        return own_slices(self.informer(node, service), service) if node in self._slices else []

    def hosts(self, service: Key) -> Hosts | None:
        """Return the exported Services behind a headless derived Service; None for all other Services."""
        if not self._headless or not mcs.is_derived(service[1]):
            return None
        original = self.services.store.get(service)
        return hosts(original.decode()) if original is not None else None

    def headless(self, node: str) -> Informer | None:
        """Return the informer of all headless Services' slices in a cluster; None without the setting `mcs`."""
        return self._headless.get(node)

    def at_gateways(self, node: str) -> Informer | None:
        """Return the informer of slices that point to a cluster's own gateways; None without `link_namespaces`."""
        return self._at_gateways.get(node)

    def gateway_slices(self, node: str, service: Key, source: str) -> list[Object] | None:
        """Return a cluster's slices of a Service that route to `source` through gateways; None until all are read."""
        informer = self._at_gateways.get(node)
        if informer is None or not informer.synced.is_set():
            return None
        found, peer = informer.store.by_index(_BY_SERVICE, "/".join(service)), self.gateway_peer(source)
        return [each for each in found if each.labels.get(LABEL_GATEWAY_PEER) == peer]

    def host_slices(self, node: str, service: Key) -> list[Object] | None:
        """Return the slices of a headless Service in a cluster, without those of the agent; None until all are read."""
        informer = self._headless.get(node)
        return own_slices(informer, service) if informer is not None and informer.synced.is_set() else None

    def exported_ports(self, service: Key, node: str, some: frozenset[str] | None) -> frozenset[str]:
        """Return the names among `some` (None: all) of the ports that a cluster exports of a derived Service."""
        original = self.services.store.get(service)
        exported = ports_exported(original.decode(), node) if original is not None else None
        return frozenset(exported or ()) if some is None else some.intersection(exported or ())

    def may_offer(self, node: str, service: Key) -> bool:
        """Return whether a cluster has slices of its own of a Service; True until its slices are cached."""
        if not self.is_synced(node, service[0]):
            return True
        return bool(self.informer(node, service).store.count(_OWN, "/".join(service)))

    def silent_in(self, node: str) -> float | None:
        """Return seconds until a target counts as silent: 0.0 if it does, None if it answers.

        A target that refuses the agent (credentials that have expired) may well have healthy pods.
        """
        target = self.deps.targets.by_node(node)
        if target is None:
            return None
        return silent_in(target.record, self.deps.clock.now(), self.deps.settings.endpoints_grace)

    def informer(self, node: str, service: Key | None = None) -> Informer:
        """Return the informer that has all slices of a Service in a cluster. Raises KeyError if it is not attached.

        :param service: None for slices with the labels of shared Services
        """
        unmarked = self._unmarked.of(service[0]) if service is not None and node == LOCAL else None
        return slices_by_service(unmarked) if unmarked is not None else self._slices[node]

    def original(self, service: Key) -> Key:
        """The Service whose endpoints one has: itself, or (by a ServiceLink) one of its name in another namespace."""
        found = self.services.store.get(service)
        linked = linked_service(found) if found is not None else None
        return linked if linked is not None and linked[1] == service[1] else service

    def linked(self, service: Key) -> set[Key]:
        """Return Services of other namespaces that links of a Service name, whether they exist or not."""
        asked = self.rule(service).elsewhere if self.deps.settings.link_namespaces else ()
        return {(namespace, service[1]) for _, namespace in asked}

    def rule(self, service: Key) -> Rule:
        """Return the rule for a Service from its ServiceLinks and annotations."""
        original = self.services.store.get(service)
        return self.deps.service_links.rule(original) if original is not None else ANYTHING

    def ports(self, place: Place, node: str) -> frozenset[str] | None:
        """Return names of the ports whose endpoints cluster `node` publishes to that of `place`; None for all."""
        key = self.original(place.service)
        original = self.services.store.get(key)
        elsewhere = place.service[0] if key != place.service else ""
        found = self.rule(key).ports(self.called(node), self.called(place.node), elsewhere)
        if original is None or found is None:
            return None
        ports = original.decode()["spec"].get("ports") or ()
        return frozenset(str(each.get("name") or "") for each in ports if each["port"] in found)

    def driver(self, one: str, other: str, service: Key | None = None) -> str:
        """Return the reason of the driver between two clusters, for a Service that may name one; empty if none.

        Callers in `one` reach endpoints that a user has written in the source by their addresses: gateways call pods
        only.
        """
        found = self.between(one, other, self._named(service) if service is not None else "")
        if other == LOCAL and found in _NOT_BY_HAND and service is not None and self.has_by_hand(service):
            return BY_ADDRESSES
        return found

    def has_by_hand(self, service: Key) -> bool:
        """Return whether a shared Service has no selector, and EndpointSlices that a user has written in the source."""
        if not self._unmarked.is_by_hand(service):
            return False
        return any(names.LABEL_GLOBAL not in slice.labels for slice in self.own_slices(LOCAL, service))

    def on_own_networks(self, listener: Callable[[Key], None]) -> None:
        """Call with each Service whose endpoints users write, if the source's pod networks change."""

        def changed(old: Object | None, new: Object | None) -> None:
            for service in self._unmarked.by_hand if are_networks_new(old, new) else ():
                listener(service)

        self._summaries.subscribe(changed)

    def hidden_from(self, node: str) -> Networks | None:
        """Return pod networks of the source with addresses that callers in a target cannot use. None if unknown."""
        if not self._are_apart(node, LOCAL):
            return ()
        summary = self._summaries.store.get(("", names.SUMMARY_NAME))
        told = read(summary.annotations) if summary is not None else NOTHING_TOLD
        return told.pods if told.names_all else None

    def drivers(self, node: str, service: Key) -> set[str]:
        """Return reasons of the drivers between a cluster and all others that may run pods behind a Service.

        Targets that are not connected count, too: after a start none is connected for a while.
        """
        if self.original(service) != service:
            return {BY_ADDRESSES}
        others = (LOCAL, *self.serving(service[0]))
        always = {self.driver(node, LOCAL, service)} if node != LOCAL else set[str]()
        if self.hosts(service) is not None:
            # The cluster's own endpoints have their host names in mirrors, too.
            always.add(BY_ADDRESSES)
        if named := self._named(service):
            return {self.between(node, other, named) for other in others}.union(always) - {""}
        # A target's driver is its driver with the local cluster; another controller publishes gateways to other
        # targets.
        return {self.between(LOCAL, each) for each in ([node] if node != LOCAL else others)}.union(always) - {""}

    def _named(self, service: Key) -> str:
        return reason_of(self.rule(service).driver)

    def concerns(self, service: Object) -> bool:
        """Return whether a Service is or was shared: the latter still has our label, or copies."""
        marks = self.deps.unwritten_marks
        marked = marks.is_labelled(service) or is_shared(service.annotations)
        return marked or self._spread.has(service.key)

    def known(self, namespace: str) -> set[Key]:
        """Services that are shared or have been, of a namespace or (empty) of all, in any cluster."""
        store = self.services.store
        services = store.by_index(_NAMESPACE, namespace) if namespace else store
        return {obj.key for obj in services if self.is_shared(obj.key)}.union(self._spread.services(namespace))
