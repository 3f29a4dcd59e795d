"""Which Services of this cluster select a pod, by the selectors that their users wrote."""

from collections.abc import Mapping

from agent.api.kinds import SERVICES
from agent.clusters.cluster import Cluster
from agent.kube.store import Object
from agent.model.pattern import InvalidPattern
from agent.model.service import InvalidService, selects

_NAMESPACE = "namespace"


class SelectingServices:
    """Looks up the Services that select a pod. Nothing may be concluded before its informer has synced."""

    def __init__(self, local: Cluster) -> None:
        self.informer = local.informer(SERVICES)
        self.informer.store.index(_NAMESPACE, lambda service: (service.namespace,))

    def of(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """Services that select pods of a namespace with these labels; those that cannot be read select none."""
        return [each for each in self.informer.store.by_index(_NAMESPACE, namespace) if _selects(each, labels)]


def _selects(service: Object, labels: Mapping[str, str]) -> bool:
    try:
        return not service.deleting and selects(service.decode(), labels)
    except (InvalidService, InvalidPattern):
        return False
