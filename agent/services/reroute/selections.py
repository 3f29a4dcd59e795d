"""Proxy pods that each Service selects, updated with each change, so that no Service scans all pods."""

from collections.abc import Callable

from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.service import Selector


class Selections:
    """Proxy pods by Service. Calls `changed` with a Service that selects its first pod or has lost a pod."""

    def __init__(self, proxies: Informer, changed: Callable[[Key], None]) -> None:
        self._proxies = proxies
        self._changed = changed
        self._selectors: dict[str, dict[Key, Selector]] = {}
        self._pods: dict[Key, set[Key]] = {}
        self._lost: set[Key] = set()
        proxies.store.index("namespace", lambda pod: (pod.namespace,))
        proxies.subscribe(self._pod_changed)

    def put(self, service: Key, selector: Selector | None) -> None:
        """Set the selector of a Service; None if the Service was deleted."""
        namespace = self._selectors.setdefault(service[0], {})
        if not selector:
            namespace.pop(service, None)
            self._pods.pop(service, None)
            self._lost.discard(service)
        elif namespace.get(service) != selector:
            namespace[service] = selector
            pods = self._proxies.store.by_index("namespace", service[0])
            self._pods[service] = {pod.key for pod in pods if _selects(selector, pod)}

    def any(self, service: Key) -> bool:
        """Return whether a Service selects a proxy pod."""
        return bool(self._pods.get(service))

    def lost(self, service: Key) -> bool:
        """Return whether a Service has lost pods since the last call."""
        lost = service in self._lost
        self._lost.discard(service)
        return lost

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and old.labels == new.labels:
            return
        pod = new or old
        assert pod is not None
        for service, selector in self._selectors.get(pod.namespace, {}).items():
            pods = self._pods[service]
            if new is not None and _selects(selector, new):
                if pod.key not in pods:
                    pods.add(pod.key)
                    if len(pods) == 1:
                        self._changed(service)
            elif pod.key in pods:
                pods.discard(pod.key)
                self._lost.add(service)
                self._changed(service)


def _selects(selector: Selector, pod: Object) -> bool:
    labels = pod.labels
    return all(labels.get(key) == value for key, value in selector.items())
