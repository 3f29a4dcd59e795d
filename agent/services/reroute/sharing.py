"""Namespaces that share all of their Services, so that pods in targets can use Services whose pods stay in the
source.
"""

from collections import Counter
from collections.abc import Callable

from agent.clusters.deps import Deps
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.namespaces import is_enabled, refuses_to_share, service_reroute, shares_services
from agent.model.service import is_shared_by_namespace


class Scopes:
    """Namespaces with Targets, counted because the lookup is made for every Service."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, old: Object | None, new: Object | None) -> bool:
        """Record a change of a Target; return whether its scope has just got its first or lost its last Target."""
        target = new or old
        assert target is not None
        before = self._counts[target.namespace] > 0
        self._counts[target.namespace] += (new is not None) - (old is not None)
        return before != (self._counts[target.namespace] > 0)

    def any(self, namespace: str) -> bool:
        """Return whether pods of a namespace may use any target."""
        return self._counts[""] > 0 or self._counts[namespace] > 0


class Sharing:
    """Lookup of namespaces' annotations for every Service. Calls `changed` with a namespace whose result changes."""

    def __init__(self, deps: Deps, proxies: Informer, changed: Callable[[str], None]) -> None:
        """:param proxies: with an index by namespace"""
        self._deps = deps
        self._proxies = proxies
        self._changed = changed
        deps.namespaces.informer.subscribe(self._namespace_changed)

    def asks(self, namespace: str) -> bool:
        """Return whether a namespace shares its Services."""
        return _asks(self._deps.namespaces.get(namespace))

    def lingers(self, service: Object) -> bool:
        """Return whether a Service stays shared because pods in targets may use it: its copies are kept for them.

        False if the namespace has an annotation against sharing.
        """
        if not is_shared_by_namespace(service.annotations):
            return False
        if refuses_to_share(self._deps.namespaces.annotations(service.namespace)):
            return False
        return bool(self._proxies.store.by_index("namespace", service.namespace))

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        assert namespace is not None
        if _says(old) != _says(new):
            self._changed(namespace.name)


def _says(namespace: Object | None) -> tuple[bool, bool, str]:
    if namespace is None:
        return (False, False, "")
    annotations = namespace.annotations
    return (_asks(namespace), refuses_to_share(annotations), service_reroute(annotations))


def _asks(namespace: Object | None) -> bool:
    return namespace is not None and is_enabled(namespace.labels) and shares_services(namespace.annotations)
