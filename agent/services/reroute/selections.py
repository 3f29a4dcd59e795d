"""Proxy pods that each Service selects, updated with each change, so that no Service scans all pods."""

from collections import defaultdict
from collections.abc import Callable

from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.service import Selector

Label = tuple[str, str, str]
"""Namespace, key and value of a label."""


class Selections:
    """Proxy pods by Service. Calls `changed` with a Service that selects its first pod or has lost a pod."""

    def __init__(self, proxies: Informer, changed: Callable[[Key], None]) -> None:
        self._proxies = proxies
        self._changed = changed
        self._selectors: dict[Key, Selector] = {}
        self._under: defaultdict[Label, set[Key]] = defaultdict(set)
        """Services under one label of their selectors, so that a pod's event costs nothing for all others."""
        self._pods: dict[Key, set[Key]] = {}
        self._lost: set[Key] = set()
        proxies.store.index("namespace", lambda pod: (pod.namespace,))
        proxies.subscribe(self._pod_changed)

    def put(self, service: Key, selector: Selector | None) -> None:
        """Set the selector of a Service; None if the Service was deleted."""
        before = self._selectors.pop(service, None)
        if before:
            self._remove(_label(service, before), service)
        if not selector:
            self._pods.pop(service, None)
            self._lost.discard(service)
            return
        self._selectors[service] = selector
        self._under[_label(service, selector)].add(service)
        if before != selector:
            pods = self._proxies.store.by_index("namespace", service[0])
            self._pods[service] = {pod.key for pod in pods if _selects(selector, pod)}

    def _remove(self, label: Label, service: Key) -> None:
        self._under[label].discard(service)
        if not self._under[label]:
            del self._under[label]

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
        for service in self._concerned(old) | self._concerned(new):
            pods = self._pods[service]
            if new is not None and _selects(self._selectors[service], new):
                if pod.key not in pods:
                    pods.add(pod.key)
                    if len(pods) == 1:
                        self._changed(service)
            elif pod.key in pods:
                pods.discard(pod.key)
                self._lost.add(service)
                self._changed(service)

    def _concerned(self, pod: Object | None) -> set[Key]:
        """Return the Services that may select a pod."""
        if pod is None:
            return set()
        found = (self._under.get((pod.namespace, *label), ()) for label in pod.labels.items())
        return {service for services in found for service in services}


def _label(service: Key, selector: Selector) -> Label:
    return (service[0], *min(selector.items()))


def _selects(selector: Selector, pod: Object) -> bool:
    labels = pod.labels
    return all(labels.get(key) == value for key, value in selector.items())
