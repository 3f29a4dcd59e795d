"""Reads objects of one kind from API servers: the events of a watch and the items of a list. Pure."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from agent.api.kinds import Kind
from agent.kube.errors import UNDECODABLE, TooLarge, Unreadable, from_watch_error
from agent.kube.incoming import LINE_LIMIT, Overlong
from agent.kube.store import Key, Object
from agent.kube.undecodable import is_version, sketch

Reduce = Callable[[bytes], bytes]
"""Reduces an object's JSON to the stored part: an object whose metadata has name, namespace and resourceVersion."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    class Meta(msgspec.Struct, rename="camel"):
        resource_version: str = ""

    metadata: Meta


_event_decoder = msgspec.json.Decoder(_Event)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)


class Told(NamedTuple):
    """Version of the collection; key of the object, None without one; the object, None if it is unreadable."""

    version: str
    key: Key | None = None
    obj: Object | None = None
    deleted: bool = False
    flaw: str = ""
    """Why it cannot be read."""


class Reader:
    """Reads objects of one kind, and reduces them."""

    def __init__(self, kind: Kind, reduce: Reduce | None) -> None:
        self._kind = kind
        self._reduce = reduce

    def object(self, raw: bytes) -> Object:
        """An object. Raises Unreadable."""
        try:
            obj = Object(self._kind, raw if self._reduce is None else self._reduce(raw))
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from error
        if not obj.name or not is_version(obj.version):
            raise Unreadable("it has no name or no resource version")
        return obj

    def item(self, raw: bytes, flaw: str = "") -> Told:
        """Read an item of a list, without a key if it has none; `flaw` is the reason why its content is missing."""
        try:
            if flaw:
                raise Unreadable(flaw)
            obj = self.object(raw)
        except Unreadable as error:
            found = sketch(raw)
            return Told(found.version, found.key, flaw=str(error)) if found else Told("", flaw=str(error))
        return Told(obj.version, obj.key, obj)

    def event(self, line: bytes) -> Told:
        """Read an event of a watch.

        Raises a StatusError for an event that reports a failed watch, Unreadable for an invalid event.
        """
        if isinstance(line, Overlong):
            return _unread(line, TooLarge(f"an event of it is longer than {LINE_LIMIT >> 20} MiB"))
        try:
            event = _event_decoder.decode(line)
            raw = bytes(event.object)
            match event.type:
                case "ADDED" | "MODIFIED":
                    obj = self.object(raw)
                    return Told(obj.version, obj.key, obj)
                case "DELETED":
                    obj = Object(self._kind, raw)
                    return Told(obj.version, obj.key, deleted=True)
                case "BOOKMARK":
                    return Told(_bookmark_decoder.decode(raw).metadata.resource_version)
                case _:
                    pass
        except (*UNDECODABLE, Unreadable) as error:
            return _unread(line, error)
        raise from_watch_error(raw)


def _unread(line: bytes, error: Exception) -> Told:
    found = sketch(line, event=True)
    if found is None:
        raise Unreadable("what answers a watch is no Kubernetes API server") from error
    return Told(found.version, found.key, deleted=found.event == "DELETED", flaw=str(error))
