"""Stored parts of objects in requests for metadata only."""

from collections.abc import Callable

import msgspec

from agent.api.names import is_ours
from agent.kube import typed
from agent.kube.store import Identity, metadata_only


class _Metadata(Identity, kw_only=True, rename="camel", omit_defaults=True):
    generation: int = 0
    owner_references: list[typed.Owner] | None = None
    annotations: dict[str, str] | None = None


class _Owner(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Owner)
_encode = msgspec.json.Encoder().encode


def owner_metadata(raw: bytes) -> bytes:
    """Keep identity, generation, controller and Flotilla's annotations of an object that controls pods."""
    owner = _decoder.decode(raw)
    metadata = owner.metadata
    metadata.labels = metadata.finalizers = None
    metadata.annotations = {key: value for key, value in (metadata.annotations or {}).items() if is_ours(key)} or None
    metadata.owner_references = [each for each in metadata.owner_references or () if each.controller] or None
    return _encode(owner)


class _Every(Identity, kw_only=True, rename="camel", omit_defaults=True):
    """Like `_Metadata`, with all fields of owner references: they are compared, not only followed."""

    generation: int = 0
    owner_references: list[dict[str, object]] | None = None
    annotations: dict[str, str] | None = None


class _Whole(msgspec.Struct):
    metadata: _Every


_whole_decoder = msgspec.json.Decoder(_Whole)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with the whole manifest that kubectl has applied."""


def whole_metadata(raw: bytes) -> bytes:
    """Keep all metadata that users and controllers set, except kubectl's copy of the manifest and managedFields."""
    found = _whole_decoder.decode(raw)
    if found.metadata.annotations:
        found.metadata.annotations.pop(LAST_APPLIED, None)
    return _encode(found)


METADATA: frozenset[Callable[[bytes], bytes]] = frozenset((metadata_only, owner_metadata, whole_metadata))
"""Functions that read only metadata."""
