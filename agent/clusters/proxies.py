"""The proxy pods of this cluster: one informer for all rooms."""

from agent.api.kinds import PODS
from agent.clusters.cluster import Cluster
from agent.kube.store import Object
from agent.model.podstate import PROXY_PODS

_NODE, _FINALIZER = "node", "finalizer"


class ProxyPods:
    """What this cluster has of them."""

    def __init__(self, local: Cluster) -> None:
        self.informer = local.informer(PODS, fields=PROXY_PODS)
        self.informer.store.index(_NODE, lambda pod: (pod.node_name,))
        self.informer.store.index(_FINALIZER, lambda pod: pod.finalizers)

    def bound_to(self, node_name: str) -> list[Object]:
        """Those that are bound to a virtual node."""
        return self.informer.store.by_index(_NODE, node_name)

    def held_for(self, finalizer: str) -> list[Object]:
        """Those that carry the finalizer of a target."""
        return self.informer.store.by_index(_FINALIZER, finalizer)

    def count_held_for(self, finalizer: str) -> int:
        """How many carry it."""
        return self.informer.store.count(_FINALIZER, finalizer)
