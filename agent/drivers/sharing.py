"""Where Services are shared, and what EndpointSlices they have there: from the stores alone."""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import ENDPOINT_SLICES, NODES, SERVICES, TARGET_KINDS
from agent.api.names.links import ANNOTATION_NETWORKS, BY_GATEWAY, NOT_FLAT
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.drivers.driver import BY_ADDRESSES, HERE, Place
from agent.drivers.spread import Spread
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import podranges
from agent.model.flatness import ANSWERS, Networks, overlap, read
from agent.model.links import HERE as LOCAL
from agent.model.links import reason_of, told_by
from agent.model.service import is_shared, is_shared_by_namespace
from agent.model.servicerule import ANYTHING, Rule
from agent.model.sharedcopies import linked_service

CONDITION = "ServicesShared"
BY_SERVICE = "service"


def service_of(slice: Object) -> list[str]:
    """The Service that an EndpointSlice belongs to, as `namespace/name`: an index of them."""
    name = slice.labels.get(names.LABEL_SERVICE_NAME)
    return [f"{slice.namespace}/{name}"] if name else []


def key_of(slice: Object) -> Key | None:
    """The same as a key."""
    name = slice.labels.get(names.LABEL_SERVICE_NAME)
    return (slice.namespace, name) if name else None


def _said(target: Object) -> Mapping[str, Any]:
    """What a Target says of shared Services."""
    return find_condition((target.decode().get("status") or {}).get("conditions"), CONDITION) or {}


def are_networks_new(old: Object | None, new: Object | None) -> bool:
    """Whether a virtual node tells of other pod networks of its target than before: these decide who reaches whom."""
    told = [each.annotations.get(ANNOTATION_NETWORKS, "") if each is not None else "" for each in (old, new)]
    return told[0] != told[1]


def slices_in(deps: Deps, target: Target | None) -> Informer:
    """Slices of shared Services, and no others: slices inherit the labels of their Service, and ours have them, too."""
    if target is None:
        informer = deps.local.informer(ENDPOINT_SLICES, labels=f"{names.LABEL_GLOBAL}=true")
    else:
        informer = target.informer(ENDPOINT_SLICES, labels=f"{names.LABEL_PARENT_CLUSTER_UID}={deps.cluster_uid}")
    informer.store.index(BY_SERVICE, service_of)
    return informer


class Sharing:
    """The stores of all clusters as one. Clusters are named by their virtual node, this one by the empty string."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps
        self.services = deps.local.informer(SERVICES)
        self.nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self.targets = deps.local.either(TARGET_KINDS)
        self._slices: dict[str, Informer] = {HERE: slices_in(deps, None)}
        self._copies: dict[str, Informer] = {}
        self._spread = Spread()
        self._drivers: dict[Key, tuple[str, str]] = {}
        self._networks: dict[str, tuple[str, str, Networks | None]] = {}
        self._apart: dict[tuple[str, str], tuple[Networks, Networks, bool]] = {}

    def attach(self, target: Target) -> tuple[Informer, Informer]:
        """Begin to read a target: its copies and slices."""
        node = target.node_name
        mine = f"{names.LABEL_PARENT_CLUSTER_UID}={self.deps.cluster_uid}"
        self._copies[node], self._slices[node] = target.informer(SERVICES, labels=mine), slices_in(self.deps, target)
        self._spread.attach(node, self._copies[node])
        return self._copies[node], self._slices[node]

    def detach(self, target: Target) -> None:
        """A target is no more."""
        self._spread.detach(target.node_name)
        self._networks.pop(target.node_name, None)
        self._apart = {pair: known for pair, known in self._apart.items() if target.node_name not in pair}
        self._copies.pop(target.node_name, None)
        self._slices.pop(target.node_name, None)

    def place(self, node: str, service: Key) -> Place | None:
        """A Service in a cluster, None where it is not, or is not known to be."""
        if node == HERE:
            original = self.services.store.get(service)
            return Place(HERE, self.deps.local.port, service, original.uid) if original is not None else None
        target, copies = self.deps.targets.by_node(node), self._copies.get(node)
        copy = copies.store.get(service) if copies is not None else None
        return Place(node, target.port, service, copy.uid) if target is not None and copy is not None else None

    def is_shared(self, service: Key) -> bool:
        """Whether a Service of this cluster is shared."""
        original = self.services.store.get(service)
        return original is not None and not original.deleting and is_shared(original.annotations)

    def is_at_home(self, service: Key) -> bool:
        """Whether its pods are here alone: what targets have behind its copies is none of ours, and not believed."""
        original = self.services.store.get(service)
        return original is not None and is_shared_by_namespace(original.annotations)

    def may_be_exported(self, service: Key) -> bool:
        """Whether its namespace is enabled, or pods of it are in a target still, or another cluster has it already."""
        in_use = self.deps.namespaces.is_in_use(service[0])
        return in_use or self._spread.has(service)

    def nodes_of(self, service: Key) -> list[str]:
        """Clusters that share a Service, each once: two Targets that lead to one cluster find the same copy there."""
        here = self.place(HERE, service)
        there = self._spread.firsts(service)
        if here is None:
            return there
        # A Target may lead to this very cluster.
        same = self._spread.first(service, here.uid)
        return [HERE, *(node for node in there if node != same)]

    def stands_for(self, place: Place) -> bool:
        """Whether a place is the one of its cluster, where several Targets lead to that."""
        if place.node == HERE:
            return True
        here = self.place(HERE, place.service)
        return self._spread.first(place.service, place.uid) == place.node and (here is None or here.uid != place.uid)

    def copied_to(self, node: str) -> list[Key]:
        """Services that have a copy in a target."""
        return list(self._copies[node].store.keys()) if node in self._copies else []

    def is_synced(self, node: str) -> bool:
        """Whether the stores of a cluster may be believed."""
        copies, slices = self._copies.get(node), self._slices.get(node)
        return slices is not None and slices.synced.is_set() and (copies is None or copies.synced.is_set())

    def slices(self, node: str, service: Key) -> list[Object]:
        """Slices of a Service in a cluster, ours among them."""
        informer = self._slices.get(node)
        return informer.store.by_index(BY_SERVICE, "/".join(service)) if informer is not None else []

    def informer(self, node: str) -> Informer:
        """The slices of a cluster. Raises KeyError where that is not attached."""
        return self._slices[node]

    def original(self, service: Key) -> Key:
        """The Service whose endpoints one has: itself, or (by a ServiceLink) one of its name in another namespace."""
        found = self.services.store.get(service)
        linked = linked_service(found) if found is not None else None
        return linked if linked is not None and linked[1] == service[1] else service

    def linked(self, service: Key) -> set[Key]:
        """Services of other namespaces that links of a Service mean, whether they are there or not."""
        asked = self.rule(service).elsewhere if self.deps.settings.link_namespaces else ()
        return {(namespace, service[1]) for _, namespace in asked}

    def rule(self, service: Key) -> Rule:
        """What ServiceLinks and its annotations say of a Service."""
        original = self.services.store.get(service)
        return self.deps.service_links.rule(original) if original is not None else ANYTHING

    def called(self, node: str) -> tuple[str, ...]:
        """All names by which links may mean a cluster."""
        if node == HERE:
            return tuple(filter(None, (LOCAL, self.deps.settings.cluster_name)))
        obj = self.target_object(node)
        return (obj.name, node) if obj is not None else (node,)

    def gateway_peer(self, node: str) -> str:
        """Name of the GatewayPeers that stand for a cluster in others."""
        obj = self.target_object(node)
        called, origin = (obj.name, names.origin(*obj.key)) if obj is not None else (self.called(HERE)[-1], LOCAL)
        return names.gateway_peer(called, self.deps.cluster_uid, origin)

    def ports(self, place: Place, node: str) -> frozenset[str] | None:
        """Names of the ports of a Service whose endpoints in one cluster another one is told of, None for all."""
        key = self.original(place.service)
        original = self.services.store.get(key)
        elsewhere = place.service[0] if key != place.service else ""
        found = self.rule(key).ports(self.called(node), self.called(place.node), elsewhere)
        if original is None or found is None:
            return None
        ports = original.decode()["spec"].get("ports") or ()
        return frozenset(str(each.get("name") or "") for each in ports if each["port"] in found)

    def driver(self, one: str, other: str, service: Key | None = None) -> str:
        """The driver between two clusters, by its reason; empty if there is none, or not yet.

        That of a target and this cluster is the target's, two targets have one if it is the same, and what is named for
        the Service counts before that. Addresses of pods are told only where they lead to no strangers, as far as that
        is measured: to say otherwise is for who writes the Target.
        """
        if one == other:
            return ""
        if service is not None and (reason := reason_of(self.rule(service).driver)):
            return "" if reason == BY_ADDRESSES and self._are_apart(one, other) else reason
        reasons = {self._driver(node) for node in (one, other) if node != HERE}
        reason = reasons.pop() if len(reasons) == 1 else ""
        return "" if reason == BY_ADDRESSES and HERE not in (one, other) and self.overlap(one, other) else reason

    def _are_apart(self, one: str, other: str) -> bool:
        """Whether addresses of one of two clusters are known to lead to strangers in the other."""
        objects = [self.target_object(node) for node in (one, other) if node != HERE]
        said = [_said(obj) for obj in objects if obj is not None]
        told = {(each.get("status"), each.get("reason")) for each in said}
        if ("True", BY_GATEWAY) in told or any(("False", reason) in told for reason in NOT_FLAT):
            return True
        return HERE not in (one, other) and self.overlap(one, other)

    def drivers(self, node: str, service: Key) -> set[str]:
        """Those between a cluster and any other that pods behind a Service may be in, by their reasons.

        Targets that are not connected count, too: after a start none is for a while.
        """
        if self.original(service) != service:
            return {BY_ADDRESSES}
        return {self.driver(node, other, service) for other in (HERE, *self.serving(service[0]))} - {""}

    def networks(self, node: str) -> Networks | None:
        """Those of a target's pods, as its Target names them or else it tells itself; empty where neither does.

        None where its Target is annotated with the driver `endpointslices`: a person's word that pods are reached.
        """
        obj, virtual = self.target_object(node), self.nodes.store.get(("", node))
        versions = (obj.version if obj is not None else "", virtual.version if virtual is not None else "")
        known = self._networks.get(node)
        if known is None or known[:2] != versions:
            found: Networks | None = read(virtual.annotations).pods if virtual is not None else ()
            if obj is not None:
                named = podranges.of(obj.decode()).networks
                by_hand = names.annotation(obj.annotations, names.NETWORK_DRIVER) == names.ENDPOINT_SLICES_DRIVER
                found = None if by_hand else found if named is None else named
            # Pairs are known by the same object.
            found = known[2] if known is not None and known[2] == found else found
            known = self._networks[node] = (*versions, found)
        return known[2]

    def overlap(self, one: str, other: str) -> bool:
        """Whether pods of two targets may have the same addresses."""
        mine, theirs = self.networks(one), self.networks(other)
        if not mine or not theirs:
            return False
        pair = (min(one, other), max(one, other))
        known = self._apart.get(pair)
        ordered = (mine, theirs) if one == pair[0] else (theirs, mine)
        if known is None or known[0] is not ordered[0] or known[1] is not ordered[1]:
            known = self._apart[pair] = (*ordered, bool(overlap(*ordered)))
        return known[2]

    def _driver(self, node: str) -> str:
        """Reason of the condition ServicesShared of a target; empty if its endpoints are not shared, or not yet."""
        obj = self.target_object(node)
        if obj is None:
            return ""
        version, reason = self._drivers.get(obj.key, ("", ""))
        if version != obj.version:
            reason = self.reason(obj)
            self._drivers[obj.key] = (obj.version, reason)
        return reason

    def is_measured(self, one: str, other: str) -> bool:
        """Whether an agent has answered from among the pods of the other of two clusters, one of which is this one."""
        obj = self.target_object(other or one) if HERE in (one, other) else None
        if obj is None:
            return False
        said = _said(obj)
        return said.get("status") == "True" and ANSWERS in str(said.get("message", ""))

    @staticmethod
    def reason(obj: Object) -> str:
        """The same, read from the Target."""
        said = _said(obj)
        return told_by(obj.annotations, said) if said.get("status") == "True" else ""

    def concerns(self, service: Object) -> bool:
        """Whether a Service is shared, or has been: then it has our label still, or copies."""
        marked = names.LABEL_GLOBAL in service.labels or is_shared(service.annotations)
        return marked or self._spread.has(service.key)

    def target_object(self, node: str) -> Object | None:
        """The Target or ClusterTarget behind a virtual node."""
        target = self.deps.targets.by_node(node)
        if target is not None:
            return self.targets.get(target.key)
        return next((obj for obj in self.targets if node and names.virtual_node(*obj.key) == node), None)

    def serving(self, namespace: str) -> list[str]:
        """Virtual nodes of the targets that pods of a namespace may go to, connected or not."""
        return [names.virtual_node(*obj.key) for obj in self.targets.serving(namespace)]

    def known(self, namespace: str) -> set[Key]:
        """Services that are shared or have been, of a namespace or (empty) of all, in any cluster."""
        found = {obj.key for obj in self.services.store if self.is_shared(obj.key)}.union(self._spread.services())
        return {key for key in found if namespace in ("", key[0])}
