"""Namespaces of the local cluster, and whether each is enabled: only enabled ones send new objects to targets.

Whoever takes the label away stops new pods. Those that are in targets, and what they need there, stay until they end.
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
    """The metadata of a namespace, without annotations that are none of our business."""
    namespace = _decoder.decode(raw)
    annotations = namespace.metadata.annotations or {}
    kept = {key: value for key, value in annotations.items() if names.is_ours(key) or is_filter(key)}
    namespace.metadata.annotations = kept or None
    return _encode(namespace)


def turns(old: Object | None, new: Object | None) -> bool:
    """Whether a change of a namespace enables it, or ends that."""
    before, after = (namespace is not None and is_enabled(namespace.labels) for namespace in (old, new))
    return before != after


class Namespaces:
    """Which namespaces are enabled. Nothing may be concluded before its informer has synced: callers watch that."""

    def __init__(self, local: Cluster, chaperons: Chaperons) -> None:
        self.informer = local.informer(NAMESPACES, reduce=reduce)
        self._chaperons = chaperons
        self._listeners: list[Callable[[str], None]] = []
        self.informer.subscribe(self._changed)

    def on_turn(self, listener: Callable[[str], None]) -> None:
        """Call with the name of every namespace that becomes enabled, or ceases to be, once all of them are known."""
        self._listeners.append(listener)

    def get(self, name: str) -> Object | None:
        """A namespace, with those of its annotations that are ours."""
        return self.informer.store.get(("", name))

    def annotations(self, name: str) -> Mapping[str, str]:
        """Those of a namespace that are ours, none of one that is not known."""
        namespace = self.get(name)
        return namespace.annotations if namespace is not None else {}

    def is_enabled(self, name: str) -> bool:
        """Whether something new of a namespace may go to targets."""
        namespace = self.get(name)
        return namespace is not None and is_enabled(namespace.labels)

    def is_in_use(self, name: str) -> bool:
        """Whether a namespace is enabled, or pods of it are in a target still."""
        return self.is_enabled(name) or self._chaperons.any_in(name)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        if namespace is not None and self.informer.synced.is_set() and turns(old, new):
            tell(self._listeners, namespace.name)
