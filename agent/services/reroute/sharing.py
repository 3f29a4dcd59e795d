"""Namespaces that share all of their Services, so that pods in targets find also those whose pods stay here."""

from collections import Counter
from collections.abc import Callable

from agent.clusters.deps import Deps
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.namespaces import is_enabled, refuses_to_share, service_reroute, shares_services
from agent.model.service import is_shared_by_namespace


class Scopes:
    """Which namespaces there are Targets for: looked up for every Service."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, old: Object | None, new: Object | None) -> bool:
        """A Target has come, changed or gone; whether it was the first or the last of its scope."""
        target = new or old
        assert target is not None
        before = self._counts[target.namespace] > 0
        self._counts[target.namespace] += (new is not None) - (old is not None)
        return before != (self._counts[target.namespace] > 0)

    def any(self, namespace: str) -> bool:
        """Whether there is any target that pods of a namespace may go to."""
        return self._counts[""] > 0 or self._counts[namespace] > 0


class Sharing:
    """Asked of every Service; `changed` is called with a namespace whose annotations decide otherwise on Services."""

    def __init__(self, deps: Deps, proxies: Informer, changed: Callable[[str], None]) -> None:
        """:param proxies: with an index by namespace"""
        self._deps = deps
        self._proxies = proxies
        self._changed = changed
        deps.namespaces.informer.subscribe(self._namespace_changed)

    def asks(self, namespace: str) -> bool:
        """Whether a namespace shares its Services."""
        return _asks(self._deps.namespaces.get(namespace))

    def lingers(self, service: Object) -> bool:
        """Whether a Service stays shared for pods that may use it in targets: these keep what they have there.

        Not where the namespace says itself that it is not to be shared.
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
