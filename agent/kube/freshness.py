"""Checks whether the store of an informer is up to date with its API server.

A resumed watch delivers missed changes, but never reports that they were all. The API server's list of metadata does:
for 5,000 chaperons it costs a third of a full list.
"""

from typing import NamedTuple

import msgspec

from agent.kube.client import METADATA_LIST
from agent.kube.errors import UNDECODABLE, Unreadable
from agent.kube.informer import Informer
from agent.kube.store import Key
from agent.kube.undecodable import is_version


class _Identity(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class _Item(msgspec.Struct):
    metadata: _Identity


_decoder = msgspec.json.Decoder(_Item)


class Lag(NamedTuple):
    """Changes that a store lacked at some moment, by the versions in its API server."""

    missing: dict[Key, int]
    """Objects that it did not have, or in an earlier version than this."""
    gone: dict[Key, int]
    """Cached objects that had been deleted by this version."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.gone)

    def left(self, informer: Informer) -> "Lag":
        """Return the changes that the store still lacks."""
        return Lag(
            {key: version for key, version in self.missing.items() if _version(informer, key) < version},
            {key: version for key, version in self.gone.items() if 0 < _version(informer, key) < version},
        )


async def lag(informer: Informer) -> Lag:
    """Return the changes in the API server that an informer has not received yet. Raises KubeError.

    Ignores unreadable objects.
    """
    missing: dict[Key, int] = {}
    listed: set[Key] = set()
    now = 0
    client = informer.client
    pages = client.pages(informer.kind, informer.namespace, **informer.selectors, accept=METADATA_LIST)
    async for page in pages:
        now = _number(page.version)
        for raw in page.items:
            found = _read(bytes(raw))
            key = (found.namespace, found.name)
            listed.add(key)
            if key not in informer.flaws and _version(informer, key) < _number(found.resource_version):
                missing[key] = _number(found.resource_version)
    gone = {key: now for key in informer.store.keys() - listed if _version(informer, key) < now}
    return Lag(missing, gone).left(informer)


def _read(raw: bytes) -> _Identity:
    try:
        return _decoder.decode(raw).metadata
    except UNDECODABLE as error:
        raise Unreadable(f"the metadata of an object cannot be read: {error}") from error


def _version(informer: Informer, key: Key) -> int:
    found = informer.store.get(key)
    return _number(found.version) if found is not None else 0


def _number(version: str) -> int:
    return int(version) if is_version(version) else 0
