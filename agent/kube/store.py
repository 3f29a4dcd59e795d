"""Objects as bytes with a small typed head, kept by key and by index.

2,000 pods kept as bytes take 5 KiB each, as dicts 31 KiB; decoding one on demand costs 60 us.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import Kind

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

IndexFunction = Callable[["Object"], Iterable[str]]


class Owner(msgspec.Struct, rename="camel", gc=False):
    """One owner reference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class KnownAnnotations(msgspec.Struct, gc=False):
    """Annotations that rooms look up for every object; the others are decoded when they are asked for."""

    claim: str = msgspec.field(default="", name=names.ANNOTATION_CLAIM)
    claim_uid: str = msgspec.field(default="", name=names.ANNOTATION_CLAIM_UID)
    claim_renewed: str = msgspec.field(default="", name=names.ANNOTATION_CLAIM_RENEWED)
    scheduling: str = msgspec.field(default="", name=names.PREFIX + names.SCHEDULING)
    scheduling_short: str = msgspec.field(default="", name=names.SHORT_PREFIX + names.SCHEDULING)
    no_reservation: str | None = msgspec.field(default=None, name=names.PREFIX + names.NO_RESERVATION)
    no_reservation_short: str | None = msgspec.field(default=None, name=names.SHORT_PREFIX + names.NO_RESERVATION)
    group: str = msgspec.field(default="", name=names.PREFIX + names.POD_GROUP)
    group_short: str = msgspec.field(default="", name=names.SHORT_PREFIX + names.POD_GROUP)
    parent_name: str = msgspec.field(default="", name=names.ANNOTATION_PARENT_NAME)
    parent_namespace: str = msgspec.field(default="", name=names.ANNOTATION_PARENT_NAMESPACE)


_NOTHING = msgspec.Raw()
_APPLY = b'"operation":"Apply"'
_NO_ANNOTATIONS = KnownAnnotations()


class Metadata(msgspec.Struct, rename="camel"):
    """What we look at most."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[Owner] | None = None
    annotations: KnownAnnotations | None = None
    managed_fields: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    scheduling_gates: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class Head(msgspec.Struct):
    """The typed part of any object."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _AnnotatedMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct):
    metadata: _AnnotatedMeta


_head_decoder = msgspec.json.Decoder(Head)
_annotated_decoder = msgspec.json.Decoder(_Annotated)
_dict_decoder = msgspec.json.Decoder(dict[str, Any])

_NO_LABELS: dict[str, str] = {}


class Object:
    """One object as the API server sent it, without managedFields."""

    __slots__ = ("applied", "head", "kind", "raw")

    def __init__(self, kind: Kind, raw: bytes) -> None:
        self.kind = kind
        self.head: Head = _head_decoder.decode(raw)
        managed = bytes(self.head.metadata.managed_fields)
        self.head.metadata.managed_fields = _NOTHING
        self.applied = _APPLY in managed
        """Whether somebody owns fields of it by server-side apply."""
        self.raw = raw.replace(b'"managedFields":' + managed, b'"managedFields":[]', 1) if managed else raw

    def decode(self) -> dict[str, Any]:
        """A fresh dict of the whole object, with apiVersion and kind."""
        value: dict[str, Any] = _dict_decoder.decode(self.raw)
        value.setdefault("apiVersion", self.kind.api_version)
        value.setdefault("kind", self.kind.name)
        value["metadata"].pop("managedFields", None)
        return value

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.head.metadata.namespace, self.head.metadata.name)

    @property
    def namespace(self) -> str:
        """The namespace, empty for cluster-scoped objects."""
        return self.head.metadata.namespace

    @property
    def name(self) -> str:
        """The name."""
        return self.head.metadata.name

    @property
    def uid(self) -> str:
        """The UID."""
        return self.head.metadata.uid

    @property
    def version(self) -> str:
        """The resource version."""
        return self.head.metadata.resource_version

    @property
    def labels(self) -> dict[str, str]:
        """The labels; do not change them."""
        return self.head.metadata.labels or _NO_LABELS

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations, decoded at each call."""
        return _annotated_decoder.decode(self.raw).metadata.annotations or {}

    @property
    def known(self) -> KnownAnnotations:
        """The annotations that need no decoding."""
        return self.head.metadata.annotations or _NO_ANNOTATIONS

    @property
    def finalizers(self) -> list[str]:
        """The finalizers; do not change them."""
        return self.head.metadata.finalizers or []

    @property
    def deleting(self) -> bool:
        """Whether it has a deletion timestamp."""
        return self.head.metadata.deletion_timestamp is not None

    @property
    def node_name(self) -> str:
        """spec.nodeName, empty when absent."""
        return self.head.spec.node_name if self.head.spec else ""

    @property
    def scheduler_name(self) -> str:
        """spec.schedulerName, empty when absent."""
        return self.head.spec.scheduler_name if self.head.spec else ""

    @property
    def priority(self) -> int:
        """spec.priority, 0 when absent."""
        return (self.head.spec.priority or 0) if self.head.spec else 0

    @property
    def gated(self) -> bool:
        """Whether scheduling gates are closed."""
        return bool(self.head.spec and self.head.spec.scheduling_gates)

    @property
    def phase(self) -> str:
        """status.phase, empty when absent."""
        return self.head.status.phase if self.head.status else ""

    @property
    def controller(self) -> Owner | None:
        """The owner reference that is the controller."""
        for owner in self.head.metadata.owner_references or ():
            if owner.controller:
                return owner
        return None


class _Identity(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    finalizers: list[str] | None = None


class _Reduced(msgspec.Struct):
    metadata: _Identity


_identity_decoder = msgspec.json.Decoder(_Reduced)
_encode = msgspec.json.Encoder().encode


def metadata_only(raw: bytes) -> bytes:
    """Leave of an object what tells it apart, its labels and finalizers: some 300 bytes, however large it is.

    Annotations go, too: kubectl keeps a copy of the whole content in one.
    """
    return _encode(_identity_decoder.decode(raw))


class Store:
    """Objects of one kind by key, with named indexes."""

    def __init__(self) -> None:
        self._objects: dict[Key, Object] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[Key, Object]]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> Object | None:
        """The object with this key, or None."""
        return self._objects.get(key)

    def keys(self) -> set[Key]:
        """All keys."""
        return set(self._objects)

    def index(self, name: str, function: IndexFunction) -> None:
        """Keep an index: `function` gives the values under which an object is found. Twice is the same as once."""
        if name in self._functions:
            return
        self._functions[name] = function
        self._indexes[name] = {}
        for obj in self._objects.values():
            self._insert(name, obj)

    def by_index(self, name: str, value: str) -> list[Object]:
        """Objects found under a value of an index. Raises KeyError for an index that is not kept."""
        return list(self._indexes[name].get(value, {}).values())

    def count(self, name: str, value: str) -> int:
        """How many objects are found under a value of an index."""
        return len(self._indexes[name].get(value, {}))

    def put(self, obj: Object) -> Object | None:
        """Insert or replace; returns what was there."""
        old = self.remove(obj.key)
        self._objects[obj.key] = obj
        for name in self._functions:
            self._insert(name, obj)
        return old

    def remove(self, key: Key) -> Object | None:
        """Remove and return what was there."""
        old = self._objects.pop(key, None)
        if old is None:
            return None
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                entries = index.get(value)
                if entries is not None:
                    entries.pop(key, None)
                    if not entries:
                        del index[value]
        return old

    def _insert(self, name: str, obj: Object) -> None:
        index = self._indexes[name]
        for value in self._functions[name](obj):
            index.setdefault(value, {})[obj.key] = obj
