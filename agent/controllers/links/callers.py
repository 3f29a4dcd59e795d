"""Who may call a shared Service, by cluster and namespace, and which clusters offer it endpoints: from stores alone."""

from collections.abc import Collection
from typing import NamedTuple

from agent.api.conditions import find_condition
from agent.clusters.deps import Deps
from agent.clusters.target import State
from agent.drivers.driver import HERE
from agent.drivers.sharing import Sharing
from agent.kube.store import Key
from agent.model.endpoints import count_ready
from agent.model.links import HERE as LOCAL
from agent.model.servicerule import Rule


class NotYet(Exception):
    """A store is still being read: look again soon."""


class Cluster(NamedTuple):
    """A cluster that pods behind a Service may be in."""

    node: str
    name: str
    """As links tell it."""


class Callers(NamedTuple):
    """Callers in one namespace of a cluster, and the Service that they use."""

    cluster: Cluster
    service: Key
    elsewhere: str = ""
    """Their namespace, if it is not that of the Service whose endpoints are told."""


class Offer(NamedTuple):
    """Endpoints that a cluster has of its own."""

    any: bool
    ready: int


class Around:
    """Of one Service after the other."""

    def __init__(self, deps: Deps, sharing: Sharing) -> None:
        self._deps = deps
        self._sharing = sharing

    def clusters(self, service: Key) -> list[Cluster]:
        """All that pods behind a Service may be in, each once, this one first."""
        found, called = [Cluster(HERE, self._deps.settings.cluster_name or LOCAL)], set[str]()
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
        """The same of those in which callers of other namespaces can be linked; None where nobody wants that."""
        if not self._deps.settings.link_namespaces:
            return None
        return self.known([cluster for cluster in clusters if self._is_everywhere(cluster.node)])

    def _is_everywhere(self, node: str) -> bool:
        obj = self._sharing.target_object(node)
        return node == HERE or (obj is not None and not obj.namespace)

    def callers(self, service: Key, rule: Rule, clusters: Collection[Cluster]) -> list[Callers]:
        """Those of the Service's own namespace in all clusters, then those of others that links mean."""
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
        """Names by which a ServiceLink may call these clusters."""
        return {name for cluster in clusters for name in (cluster.name, *self._sharing.called(cluster.node)[:1])}

    def offers(self, service: Key, clusters: Collection[Cluster]) -> dict[str, Offer]:
        """Endpoints of clusters, by their virtual nodes. Raises NotYet."""
        return {cluster.node: self._offer(cluster.node, service) for cluster in clusters}

    def _offer(self, node: str, service: Key) -> Offer:
        if node and self._sharing.is_at_home(service):
            return Offer(any=False, ready=0)
        target = self._deps.targets.by_node(node) if node else None
        if node and (target is None or target.record.state is State.CONNECTING):
            self.while_connecting(node)
        unread = target is not None and target.ready and not self._sharing.is_synced(node)
        if unread and self._sharing.informer(node).error is None:
            raise NotYet
        away = self._sharing.away
        own = [slice.decode() for slice in self._sharing.own_slices(node, service)]
        if not own:
            return Offer(any=False, ready=0)
        some = (endpoint.get("nodeName") not in away for slice in own for endpoint in slice.get("endpoints") or ())
        return Offer(any=any(some), ready=count_ready(own, away))

    def while_connecting(self, node: str) -> str:
        """Why its Target has not been ready. Raises NotYet where it has: what it offers is about to be known."""
        obj = self._sharing.target_object(node)
        said = find_condition((obj.decode().get("status") or {}).get("conditions"), "Ready") if obj else None
        if said is None or said.get("status") == "True":
            raise NotYet
        return str(said.get("message", ""))
