"""Ingresses with a shared Service of this cluster as a backend, decided once for each version of an Ingress."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from agent.api.kinds import INGRESSES, SERVICES
from agent.clusters.deps import Deps
from agent.kube.errors import UNDECODABLE, Unreadable
from agent.kube.store import Key, Object
from agent.model import ingress
from agent.model.service import is_copy, is_left_alone, is_shared, is_shared_by_namespace

_SERVICE = "service"


@lru_cache(maxsize=16)
def named(obj: Object) -> ingress.Named:
    """Return the names in an Ingress. The cache serves indexes and listeners, which ask several times per event.

    :raises Unreadable: if it cannot be read
    """
    try:
        return ingress.named(obj.raw)
    except UNDECODABLE as error:
        raise Unreadable(f"Ingress {obj.name} cannot be read: {error}") from error


def _services(obj: Object) -> list[str]:
    """Return the Services that an Ingress names, as `namespace/name`: values of an index."""
    return [f"{obj.namespace}/{name}" for name in named(obj).services]


class _Known(NamedTuple):
    version: str
    shared: bool
    secrets: frozenset[str]


class SharedIngresses:
    """Caches answers; `subscribe` invalidates them when Services change."""

    def __init__(self, deps: Deps) -> None:
        self._ingresses = deps.local.informer(INGRESSES)
        self._services = deps.local.informer(SERVICES)
        self._marks = deps.unwritten_marks
        self._known: dict[Key, _Known] = {}
        self._ingresses.store.index(_SERVICE, _services)
        self._turned: Callable[[Iterable[Object]], None] = lambda ingresses: None

    def subscribe(self, turned: Callable[[Iterable[Object]], None]) -> None:
        """Register a listener: called with the Ingresses that name a Service when it begins or ceases to be shared."""
        self._turned = turned
        self._ingresses.subscribe(self._ingress_changed)
        self._services.subscribe(self._service_changed)

    def has(self, obj: Object) -> bool:
        """Return True if a backend of an Ingress is a shared Service."""
        return self._of(obj).shared

    def secrets(self, obj: Object) -> frozenset[str]:
        """Return the names of the Secrets of an Ingress."""
        return self._of(obj).secrets

    def _of(self, obj: Object) -> _Known:
        known = self._known.get(obj.key)
        if known is None or known.version != obj.version:
            annotations = obj.annotations
            mine = not (obj.deleting or is_copy(annotations) or is_left_alone(annotations))
            services = (self._services.store.get((obj.namespace, name)) for name in named(obj).services)
            shared = mine and any(map(self._is_shared, services))
            known = self._known[obj.key] = _Known(obj.version, shared, named(obj).secrets)
        return known

    def _ingress_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._known.pop(old.key, None)

    def _service_changed(self, old: Object | None, new: Object | None) -> None:
        service = new or old
        if service is None or self._is_shared(old) == self._is_shared(new):
            return
        found = self._ingresses.store.by_index(_SERVICE, "/".join(service.key))
        for each in found:
            self._known.pop(each.key, None)
        self._turned(found)

    def _is_shared(self, service: Object | None) -> bool:
        if service is None:
            return False
        annotations = self._marks.annotations(service)
        return is_shared(annotations) and not is_shared_by_namespace(annotations)
