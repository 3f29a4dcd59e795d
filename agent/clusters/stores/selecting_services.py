"""Services of this cluster that select a pod, by the selectors that users wrote."""

from collections.abc import Mapping

from agent.api.kinds import SERVICES
from agent.clusters.cluster import Cluster
from agent.kube.errors import Unreadable
from agent.kube.store import Key, Object
from agent.model.pattern import InvalidPattern
from agent.model.service import InvalidService, Selector, selector_of_pods

_SELECTOR = "selector"


class SelectingServices:
    """Lookup of the Services that select a pod. Its results are valid only after its informer has synced.

    Each version of a Service is decoded once, because the lookup for a pod reads all Services of its namespace.
    """

    def __init__(self, local: Cluster) -> None:
        self.informer = local.informer(SERVICES)
        self.informer.store.index(_SELECTOR, self._under)
        self._selectors: dict[Key, tuple[str, Selector]] = {}
        """Version and selector of Services that were looked up; the selector is empty if it selects no pods.

        The version shows whether the selector is current: a list changes the store before it calls subscribers.
        """
        self.informer.subscribe(self._changed)

    def of(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """Return the Services that select pods of a namespace with these labels. Unreadable Services select none.

        Each is indexed under one label of its selector, so that other Services of the namespace cost nothing.
        """
        store = self.informer.store
        found = (store.by_index(_SELECTOR, f"{namespace}/{key}={value}") for key, value in labels.items())
        return [each for services in found for each in services if self._selects(each, labels)]

    def _selects(self, service: Object, labels: Mapping[str, str]) -> bool:
        selector = self._selector(service) if not service.deleting else {}
        return bool(selector) and all(labels.get(key) == value for key, value in selector.items())

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._selectors.pop(old.key, None)

    def _under(self, service: Object) -> list[str]:
        """Return the namespace of a Service with the first label of its selector; nothing if it selects no pods."""
        selector = self._selector(service)
        return [f"{service.namespace}/{key}={selector[key]}" for key in sorted(selector)[:1]]

    def _selector(self, service: Object) -> Selector:
        version, selector = self._selectors.get(service.key, ("", {}))
        if version != service.version:
            selector = _selector(service)
            self._selectors[service.key] = (service.version, selector)
        return selector


def _selector(service: Object) -> Selector:
    try:
        return selector_of_pods(service.decode())
    except (InvalidService, InvalidPattern, Unreadable):
        return {}
