"""Identifies an object that cannot be decoded from the beginning of its JSON. Pure.

API servers write an object's metadata before its spec and status.
"""

import re
from typing import NamedTuple

import msgspec

_SCANNED = 2 * 1024 * 1024
"""Annotations, at most 256 KiB of them and each character at most six bytes, may come before a name."""
_TOKEN = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")\s*(:?)|([{}\[\]])|(")', re.DOTALL)
_NAME_LIMIT = 253
_VERSION = re.compile(r"[0-9]{1,20}")


class Sketch(NamedTuple):
    """Type of the event (empty for an object alone), and the key and version of the object."""

    event: str
    namespace: str
    name: str
    version: str

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, under which stores keep it."""
        return self.namespace, self.name


def is_version(text: str) -> bool:
    """Return whether the text is a resource version: a number (KEP-5504)."""
    return _VERSION.fullmatch(text) is not None


def sketch(data: bytes, *, event: bool = False) -> Sketch | None:
    """Return the identity of a watch event or an object that may be cut off; None if it is not found."""
    root, place = [b""], [b"", b'"object"', b'"metadata"'] if event else [b"", b'"metadata"']
    found: dict[bytes, str] = {}
    kind, key = "", b""
    path: list[bytes] = []
    for token in _TOKEN.finditer(data[:_SCANNED]):
        string, colon, bracket, unclosed = token.groups()
        if unclosed or (bracket in (b"}", b"]") and path in (place, [])):
            break
        if bracket:
            if bracket in (b"{", b"["):
                path.append(key if path else b"")
            else:
                path.pop()
            key = b""
        elif colon:
            key = string
        elif path == place:
            found.setdefault(key, _text(string))
        elif event and path == root and key == b'"type"':
            kind = _text(string)
    name, version = found.get(b'"name"', ""), found.get(b'"resourceVersion"', "")
    namespace = found.get(b'"namespace"', "")
    if not name or max(len(name), len(namespace)) > _NAME_LIMIT or not is_version(version):
        return None
    return Sketch(kind, namespace, name, version)


def _text(token: bytes) -> str:
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
