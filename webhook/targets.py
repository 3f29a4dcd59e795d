"""The targets known now, and the finalizers they put on proxy pods.

Live: a Target made, changed or deleted counts from the next pod on. When the API server is out of reach the last
known ones count.
"""

from agent.api import names
from agent.api.kinds import CLUSTER_TARGETS, TARGETS
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object

_NAMESPACE = "namespace"


class Targets:
    """Two informers; run both."""

    def __init__(self, client: Client) -> None:
        self.informers = (Informer(client, TARGETS), Informer(client, CLUSTER_TARGETS))
        for informer in self.informers:
            informer.store.index(_NAMESPACE, lambda target: (target.namespace,))

    @property
    def synced(self) -> bool:
        """Whether all targets were listed once."""
        return all(informer.synced.is_set() for informer in self.informers)

    def problem(self) -> str | None:
        """Which targets were never listed, and why; None when all were."""
        for informer in self.informers:
            if not informer.synced.is_set():
                return f"{informer.kind} not listed yet: {informer.error or 'waiting for the API server'}"
        return None

    def finalizers(self, namespace: str) -> list[str]:
        """Sorted finalizers of the Targets of a namespace and of all ClusterTargets, those being deleted apart."""
        targets, cluster_targets = (informer.store for informer in self.informers)
        known = (*targets.by_index(_NAMESPACE, namespace), *cluster_targets.by_index(_NAMESPACE, ""))
        return sorted(_finalizer(target) for target in known if not target.deleting)


def _finalizer(target: Object) -> str:
    return names.finalizer(target.namespace, target.name)
