"""Namespaces of the local cluster, and whether each is enabled: only enabled ones send new objects to targets.

Removing the label stops new pods. Pods in targets, and the copies that they need, stay until they end.
"""

from collections.abc import Callable, Mapping

import msgspec

from agent.api import names
from agent.api.kinds import NAMESPACES
from agent.base.listeners import tell
from agent.clusters.cluster import Cluster
from agent.clusters.stores.chaperons import Chaperons
from agent.kube.store import Object
from agent.model.claimfilter import is_filter
from agent.model.namespaces import is_enabled


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Namespace)
_encode = msgspec.json.Encoder().encode


def reduce(raw: bytes) -> bytes:
    """Return the metadata of a namespace, with only the annotations that Flotilla uses."""
    namespace = _decoder.decode(raw)
    annotations = namespace.metadata.annotations or {}
    kept = {key: value for key, value in annotations.items() if names.is_ours(key) or is_filter(key)}
    namespace.metadata.annotations = kept or None
    return _encode(namespace)


def turns(old: Object | None, new: Object | None) -> bool:
    """Return whether a change of a namespace enables or disables it."""
    before, after = (namespace is not None and is_enabled(namespace.labels) for namespace in (old, new))
    return before != after


class Namespaces:
    """Lookup of enabled namespaces. Its results are valid only after its informer has synced: callers check that."""

    def __init__(self, local: Cluster, chaperons: Chaperons) -> None:
        self.informer = local.informer(NAMESPACES, reduce=reduce)
        self._chaperons = chaperons
        self._listeners: list[Callable[[str], None]] = []
        self.informer.subscribe(self._changed)

    def on_turn(self, listener: Callable[[str], None]) -> None:
        """Register a listener: called with the name of every namespace that is enabled or disabled after the
        first sync.
        """
        self._listeners.append(listener)

    def get(self, name: str) -> Object | None:
        """Return a namespace, with only the annotations that Flotilla uses; None if it does not exist."""
        return self.informer.store.get(("", name))

    def annotations(self, name: str) -> Mapping[str, str]:
        """Return the annotations of a namespace that Flotilla uses; empty if the namespace does not exist."""
        namespace = self.get(name)
        return namespace.annotations if namespace is not None else {}

    def is_enabled(self, name: str) -> bool:
        """Return whether new objects of a namespace may be sent to targets."""
        namespace = self.get(name)
        return namespace is not None and is_enabled(namespace.labels)

    def is_in_use(self, name: str) -> bool:
        """Return whether a namespace is enabled, or a target still has pods of it."""
        return self.is_enabled(name) or self._chaperons.any_in(name)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        if namespace is not None and self.informer.synced.is_set() and turns(old, new):
            tell(self._listeners, namespace.name)
