"""Objects as bytes with a small typed head, stored by key and by index.

2,000 pods kept as bytes take 5 KiB each, as dicts 31 KiB; decoding one on demand costs 60 us. Packed alone they take a
third of that, packed with a similar object as dictionary a fiftieth. Packing costs 30 us, unpacking at each use 5 to
15.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from agent.api.kinds import Kind
from agent.kube import typed
from agent.kube.errors import UNDECODABLE, Unreadable

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

IndexFunction = Callable[["Object"], Iterable[str]]

Failed = Callable[["Object", Exception], None]
"""Called with an object that an agent function failed at."""

_NOTHING = msgspec.Raw()
_APPLY = b'"operation":"Apply"'
_NO_ANNOTATIONS = typed.HotAnnotations()


class _AnnotatedMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct):
    metadata: _AnnotatedMeta


_annotated_decoder = msgspec.json.Decoder(_Annotated)
_dict_decoder = msgspec.json.Decoder(dict[str, Any])

_LARGE = 512
_OVERHEAD = 2048
"""Bytes that an object takes besides: its head, and what points to it."""
_NO_LABELS: dict[str, str] = {}


class Object:
    """An object from the API server, without managedFields. Raises Unreadable for invalid data.

    `size` is in bytes, before packing. `flaw` names a typed field with a wrong type, which counts as absent; empty if
    there is none.
    """

    __slots__ = ("_like", "_raw", "applied", "flaw", "head", "key", "kind", "size")

    def __init__(self, kind: Kind, raw: bytes) -> None:
        self.kind = kind
        self.head, self.flaw = typed.read(raw)
        self.key: Key = (self.head.metadata.namespace, self.head.metadata.name)
        """Namespace and name."""
        managed = bytes(self.head.metadata.managed_fields)
        self.head.metadata.managed_fields = _NOTHING
        self.applied = _APPLY in managed
        """Whether a field manager owns fields by server-side apply."""
        self._raw = raw.replace(b'"managedFields":' + managed, b'"managedFields":[]', 1) if managed else raw
        self._like: bytes | None = None
        """Dictionary that it is packed with; None while it is not packed."""
        self.size = len(self._raw) + _OVERHEAD

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        return self._raw if self._like is None else zlib.decompressobj(zdict=self._like).decompress(self._raw)

    @property
    def is_large(self) -> bool:
        """Return whether packing saves a relevant amount."""
        return self._like is None and len(self._raw) >= _LARGE

    def pack(self, like: bytes = b"") -> float:
        """Pack the object; returns the packed fraction of its size.

        :param like: JSON with similar content, to which a reference is kept
        """
        if not self.is_large:
            return 1.0
        packing = zlib.compressobj(1, zdict=like)
        packed = packing.compress(self._raw) + packing.flush()
        part = len(packed) / len(self._raw)
        self._raw, self._like = packed, like
        return part

    def decode(self) -> dict[str, Any]:
        """Return a fresh dict of the whole object, with apiVersion and kind. Raises Unreadable."""
        try:
            value: dict[str, Any] = _dict_decoder.decode(self.raw)
        except UNDECODABLE as error:
            raise Unreadable(f"{self.kind} {self.name} cannot be read: {error}") from error
        value.setdefault("apiVersion", self.kind.api_version)
        value.setdefault("kind", self.kind.name)
        value["metadata"].pop("managedFields", None)
        return value

    @property
    def namespace(self) -> str:
        """The namespace, empty for cluster-scoped objects."""
        return self.head.metadata.namespace

    @property
    def name(self) -> str:
        """Name of the object, from the head of the JSON."""
        return self.head.metadata.name

    @property
    def uid(self) -> str:
        """Its UID: another object of the same name has another."""
        return self.head.metadata.uid

    @property
    def version(self) -> str:
        """The resource version that was stored."""
        return self.head.metadata.resource_version

    @property
    def labels(self) -> dict[str, str]:
        """The labels; do not change them."""
        return self.head.metadata.labels or _NO_LABELS

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations, decoded at each call. Raises Unreadable."""
        try:
            return _annotated_decoder.decode(self.raw).metadata.annotations or {}
        except UNDECODABLE as error:
            raise Unreadable(f"{self.kind} {self.name} cannot be read: {error}") from error

    @property
    def hot_annotations(self) -> typed.HotAnnotations:
        """The annotations that nearly every pass asks for: decoded with the head, once."""
        return self.head.metadata.annotations or _NO_ANNOTATIONS

    @property
    def finalizers(self) -> list[str]:
        """The finalizers; do not change them."""
        return self.head.metadata.finalizers or []

    @property
    def deleting(self) -> bool:
        """Return whether it has a deletion timestamp."""
        return self.head.metadata.deletion_timestamp is not None

    @property
    def node_name(self) -> str:
        """spec.nodeName, empty when absent."""
        return (self.head.spec.node_name or "") if self.head.spec else ""

    @property
    def scheduler_name(self) -> str:
        """spec.schedulerName, empty when absent."""
        return (self.head.spec.scheduler_name or "") if self.head.spec else ""

    @property
    def priority(self) -> int:
        """spec.priority, 0 when absent."""
        return (self.head.spec.priority or 0) if self.head.spec else 0

    @property
    def gated(self) -> bool:
        """Return whether scheduling gates are closed."""
        return bool(self.head.spec and self.head.spec.scheduling_gates)

    @property
    def phase(self) -> str:
        """status.phase, empty when absent."""
        return (self.head.status.phase or "") if self.head.status else ""

    @property
    def controller(self) -> typed.Owner | None:
        """The owner reference that is the controller."""
        for owner in self.head.metadata.owner_references or ():
            if owner.controller:
                return owner
        return None


class Identity(msgspec.Struct, rename="camel", omit_defaults=True):
    """The stored part of an object's metadata."""

    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    finalizers: list[str] | None = None


class _Reduced(msgspec.Struct):
    metadata: Identity


_identity_decoder = msgspec.json.Decoder(_Reduced)
_encode = msgspec.json.Encoder().encode


def metadata_only(raw: bytes) -> bytes:
    """Reduce an object to its identity, labels and finalizers: about 300 bytes of any object.

    Annotations are removed, too: kubectl keeps a copy of the whole content in one.
    """
    return _encode(_identity_decoder.decode(raw))


class Store:
    """Objects of one kind by key, with named indexes.

    `size` is that of all objects together in bytes, before packing. `changes` grows with every insertion or removal.
    `failed` receives an object at which an index function fails: that index omits it.
    """

    def __init__(self, failed: Failed | None = None) -> None:
        self.size = 0
        self.changes = 0
        self._failed = failed
        self._objects: dict[Key, Object] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[Key, Object]]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> Object | None:
        """Return the object with this key, or None."""
        return self._objects.get(key)

    def keys(self) -> set[Key]:
        """Namespaces and names of all objects."""
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
        """Return the number of objects under a value of an index."""
        return len(self._indexes[name].get(value, {}))

    def put(self, obj: Object) -> Object | None:
        """Insert or replace; returns the previous object."""
        old = self.remove(obj.key)
        self._objects[obj.key] = obj
        self.size += obj.size
        self.changes += 1
        for name in self._functions:
            self._insert(name, obj)
        return old

    def remove(self, key: Key) -> Object | None:
        """Remove and return the previous object."""
        old = self._objects.pop(key, None)
        if old is None:
            return None
        self.size -= old.size
        self.changes += 1
        for name in self._functions:
            index = self._indexes[name]
            for value in self._values(name, old):
                entries = index.get(value)
                if entries is not None:
                    entries.pop(key, None)
                    if not entries:
                        del index[value]
        return old

    def _insert(self, name: str, obj: Object) -> None:
        index = self._indexes[name]
        for value in self._values(name, obj):
            index.setdefault(value, {})[obj.key] = obj

    def _values(self, name: str, obj: Object) -> Iterable[str]:
        try:
            return dict.fromkeys(self._functions[name](obj))
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(obj, error)
            return ()
