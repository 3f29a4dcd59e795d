"""Topology of a shared Service: its clusters, permitted callers and endpoints. From stores alone."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from agent.api.conditions import condition_of
from agent.clusters.deps import Deps
from agent.clusters.target import State
from agent.drivers.driver import LOCAL
from agent.drivers.sharing import Sharing
from agent.kube.store import Key
from agent.model.endpoints import count_ready
from agent.model.links import LOCAL_NAME
from agent.model.servicerule import Rule, Wish
from agent.services.links.status import Offered


class NotYet(Exception):
    """A store is still being read: requeue soon."""


class Cluster(NamedTuple):
    """A cluster that pods behind a Service may be in."""

    node: str
    name: str
    """A cluster as named in links."""


class Callers(NamedTuple):
    """Callers in one namespace of a cluster, and the Service that they use."""

    cluster: Cluster
    service: Key
    elsewhere: str = ""
    """Namespace of the callers if it differs from that of the Service; else empty."""


class Offer(NamedTuple):
    """Number of a cluster's own endpoints of a Service."""

    any: bool
    ready: int
    unknown: bool = False
    """Whether the state is unknown because the cluster has not been read."""


class ServiceTopology:
    """Looks up the clusters of a Service, its callers in these and the endpoints that each has."""

    def __init__(self, deps: Deps, sharing: Sharing) -> None:
        self._deps = deps
        self._sharing = sharing

    def clusters(self, service: Key) -> list[Cluster]:
        """Return all clusters that may have pods of a Service, each once, the local one first."""
        found, called = [Cluster(LOCAL, self._deps.settings.cluster_name or LOCAL_NAME)], set[str]()
        for node in self._sharing.serving(service[0]):
            target, place = self._deps.targets.by_node(node), self._sharing.place(node, service)
            obj = self._sharing.target_object(node)
            if obj is None or obj.deleting or (target is not None and target.is_self):
                continue
            if place is not None and not self._sharing.stands_for(place):
                continue
            found.append(Cluster(node, node if obj.name in called else obj.name))
            called.add(obj.name)
        return [found[0], *sorted(found[1:], key=lambda cluster: cluster.name)]

    def known_elsewhere(self, clusters: Collection[Cluster]) -> set[str] | None:
        """Return names of clusters whose callers in other namespaces can be linked; None if `link_namespaces` is
        off."""
        if not self._deps.settings.link_namespaces:
            return None
        return self.known([cluster for cluster in clusters if self._is_everywhere(cluster.node)])

    def _is_everywhere(self, node: str) -> bool:
        obj = self._sharing.target_object(node)
        return node == LOCAL or (obj is not None and not obj.namespace)

    def callers(self, service: Key, rule: Rule, clusters: Collection[Cluster]) -> list[Callers]:
        """Return the callers in the Service's own namespace in all clusters, then those in namespaces that its links
        name."""
        found = [Callers(cluster, service) for cluster in clusters]
        if not self._deps.settings.link_namespaces:
            return found
        for name, namespace in sorted(rule.elsewhere):
            found += [
                Callers(cluster, (namespace, service[1]), namespace)
                for cluster in clusters
                if name in self._sharing.called(cluster.node) and self._is_everywhere(cluster.node)
            ]
        return found

    def known(self, clusters: Collection[Cluster]) -> set[str]:
        """Return the names by which a ServiceLink may refer to these clusters."""
        return {name for cluster in clusters for name in (cluster.name, *self._sharing.called(cluster.node)[:1])}

    def offers(self, service: Key, clusters: Collection[Cluster]) -> dict[str, Offer]:
        """Return the endpoints of each cluster by virtual node. Raises NotYet."""
        return {cluster.node: self._offer(cluster.node, service) for cluster in clusters}

    def offered(self, link: Wish, clusters: Collection[Cluster], offers: Mapping[str, Offer]) -> Offered:
        """Return the total of the clusters whose endpoints a link offers."""
        meant = [
            (cluster.name, offers[cluster.node])
            for cluster in clusters
            if cluster.node in offers and link.offers(self._sharing.called(cluster.node))
        ]
        ready = sum(offer.ready for _, offer in meant)
        return Offered(ready, tuple(name for name, offer in meant if offer.unknown))

    def _offer(self, node: str, service: Key) -> Offer:
        if node and self._sharing.is_at_home(service):
            return Offer(any=False, ready=0)
        target = self._deps.targets.by_node(node) if node else None
        if node and (target is None or target.record.state is State.CONNECTING):
            self.why_not_ready(node)
        unread = target is not None and target.ready and not self._sharing.is_synced(node)
        if unread and self._sharing.informer(node).error is None:
            raise NotYet
        unknown = unread or (bool(node) and (target is None or target.record.state is State.CONNECTING))
        away = self._sharing.away
        own = [slice.decode() for slice in self._sharing.own_slices(node, service)]
        if not own:
            return Offer(any=False, ready=0, unknown=unknown)
        some = (endpoint.get("nodeName") not in away for slice in own for endpoint in slice.get("endpoints") or ())
        return Offer(any=any(some), ready=count_ready(own, away))

    def why_not_ready(self, node: str) -> str:
        """Return why an unconnected Target is not Ready. Raises NotYet if it is Ready, since it will connect soon."""
        obj = self._sharing.target_object(node)
        said = condition_of(obj.decode(), "Ready") if obj else None
        if said is None or said.get("status") == "True":
            raise NotYet
        return str(said.get("message", ""))
