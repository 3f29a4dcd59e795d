"""Addresses of the cluster's pods, as a gateway needs them to judge EndpointSlices."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection

from agent.api.kinds import PODS
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.gatewayaddresses import RUNNING_PODS, Addresses, addresses_of, reduced


class PodAddresses:
    """Addresses of pods by namespace, kept up to date pod by pod."""

    def __init__(self) -> None:
        self._found: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def replace(self, namespace: str, old: Collection[str], new: Collection[str]) -> bool:
        """Replace the addresses of one pod; return True if they differ. Two pods may have one address (hostNetwork)."""
        if old == new:
            return False
        found = self._found[namespace]
        found.subtract(old)
        found.update(new)
        for each in old:
            if found[each] <= 0:
                del found[each]
        if not found:
            del self._found[namespace]
        return True

    @property
    def by_namespace(self) -> Addresses:
        """Addresses of pods by namespace."""
        return self._found


class Pods:
    """Watch of running pods in all namespaces that keeps only their names and addresses."""

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        """:param changed: called with a namespace when the addresses of a pod in it change"""
        self.informer = Informer(client, PODS, fields=RUNNING_PODS, reduce=reduced)
        self._found = PodAddresses()
        self._changed = changed
        self.informer.subscribe(self._pod_changed)

    @property
    def addresses(self) -> Addresses:
        """Addresses of running pods by namespace."""
        return self._found.by_namespace

    @property
    def problem(self) -> str:
        """Reason why the addresses may be out of date; empty if they are current. Addresses of known pods are kept."""
        return str(self.informer.error or "")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = (new or old).namespace  # type: ignore[union-attr]
        had, has = (addresses_of(each.decode()) if each is not None else frozenset[str]() for each in (old, new))
        if self._found.replace(namespace, had, has):
            self._changed(namespace)
