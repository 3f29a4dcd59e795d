"""The typed part of objects: frequently used fields, read without decoding the rest.

API servers type an object's metadata; the spec and the status of a custom resource may have any form.
"""

import contextlib
from typing import TypeVar

import msgspec

from agent.api import names
from agent.api.names import moves
from agent.api.names.lifecycle import FAIL_BACK
from agent.api.names.moves import ALLOWED_TARGETS, TARGETS
from agent.api.names.ocm import PLACEMENT, PLACEMENT_GROUP
from agent.kube.errors import UNDECODABLE, TooLarge, Unreadable

_Part = TypeVar("_Part", bound=msgspec.Struct)


class Owner(msgspec.Struct, rename="camel", gc=False):
    """An entry of an object's owner references."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False

    @property
    def group(self) -> str:
        """The API group of its kind, empty for the core group."""
        return self.api_version.rpartition("/")[0]


class HotAnnotations(msgspec.Struct, gc=False):
    """Annotations that controllers read for every object; others are decoded on demand."""

    claim: str = msgspec.field(default="", name=names.ANNOTATION_CLAIM)
    claim_uid: str = msgspec.field(default="", name=names.ANNOTATION_CLAIM_UID)
    claim_renewed: str = msgspec.field(default="", name=names.ANNOTATION_CLAIM_RENEWED)
    scheduling: str = msgspec.field(default="", name=names.PREFIX + names.SCHEDULING)
    scheduling_short: str = msgspec.field(default="", name=names.SHORT_PREFIX + names.SCHEDULING)
    no_reservation: str | None = msgspec.field(default=None, name=names.PREFIX + names.NO_RESERVATION)
    no_reservation_short: str | None = msgspec.field(default=None, name=names.SHORT_PREFIX + names.NO_RESERVATION)
    group: str = msgspec.field(default="", name=names.PREFIX + names.POD_GROUP)
    group_short: str = msgspec.field(default="", name=names.SHORT_PREFIX + names.POD_GROUP)
    placement: str | None = msgspec.field(default=None, name=names.PREFIX + PLACEMENT)
    placement_short: str | None = msgspec.field(default=None, name=names.SHORT_PREFIX + PLACEMENT)
    placement_group: str = msgspec.field(default="", name=names.PREFIX + PLACEMENT_GROUP)
    placement_group_short: str = msgspec.field(default="", name=names.SHORT_PREFIX + PLACEMENT_GROUP)
    targets: str | None = msgspec.field(default=None, name=names.PREFIX + TARGETS)
    targets_short: str | None = msgspec.field(default=None, name=names.SHORT_PREFIX + TARGETS)
    allowed_targets: str | None = msgspec.field(default=None, name=names.PREFIX + ALLOWED_TARGETS)
    allowed_targets_short: str | None = msgspec.field(default=None, name=names.SHORT_PREFIX + ALLOWED_TARGETS)
    fail_back: str | None = msgspec.field(default=None, name=names.PREFIX + FAIL_BACK)
    fail_back_short: str | None = msgspec.field(default=None, name=names.SHORT_PREFIX + FAIL_BACK)
    parent_name: str = msgspec.field(default="", name=names.ANNOTATION_PARENT_NAME)
    parent_namespace: str = msgspec.field(default="", name=names.ANNOTATION_PARENT_NAMESPACE)
    replaces: str = msgspec.field(default="", name=moves.ANNOTATION_REPLACES)
    replaced_by: str = msgspec.field(default="", name=moves.ANNOTATION_REPLACED_BY)
    withdrawn: str = msgspec.field(default="", name=moves.ANNOTATION_WITHDRAWN)
    pod_missing_since: str = msgspec.field(default="", name=names.ANNOTATION_POD_MISSING_SINCE)


class Metadata(msgspec.Struct, rename="camel"):
    """The most frequently used metadata."""

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
    annotations: HotAnnotations | None = None
    managed_fields: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    scheduling_gates: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct, gc=False):
    phase: str | None = None


class Head(msgspec.Struct):
    """The typed part of any object."""

    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _Parts(msgspec.Struct):
    metadata: Metadata
    spec: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    status: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


_decoder = msgspec.json.Decoder(Head)
_parts_decoder = msgspec.json.Decoder(_Parts)
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_shared: dict[str, str] = {}
_SHARED_LIMIT = 1024


def read(raw: bytes) -> tuple[Head, str]:
    """Return the head of an object from JSON, and its type error; empty if there is none.

    A field of spec or status with another type than in Kubernetes counts as absent. Strings that many objects share, as
    the pods of a template do, are stored once. Raises Unreadable if not even the metadata can be read.
    """
    try:
        head, flaw = _decoder.decode(raw), ""
    except msgspec.ValidationError as error:
        head, flaw = _lenient(raw), str(error)
    except RecursionError as error:
        raise TooLarge("is nested too deep") from error
    except UNDECODABLE as error:
        raise Unreadable(str(error)) from error
    _share(head)
    return head, flaw


def _lenient(raw: bytes) -> Head:
    try:
        parts = _parts_decoder.decode(raw)
    except RecursionError as error:
        raise TooLarge("is nested too deep") from error
    except UNDECODABLE as error:
        raise Unreadable(str(error)) from error
    return Head(parts.metadata, _fitting(_Spec, parts.spec), _fitting(_Status, parts.status))


def _fitting(kind: type[_Part], raw: msgspec.Raw) -> _Part | None:
    """Return the fields that have the right type; None if the JSON is not an object."""
    try:
        given = _fields_decoder.decode(raw)
    except UNDECODABLE:
        return None
    fitting = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in given:
            with contextlib.suppress(*UNDECODABLE):
                fitting[field.name] = msgspec.json.decode(given[field.encode_name], type=field.type)
    return kind(**fitting)


def _share(head: Head) -> None:
    if len(_shared) > _SHARED_LIMIT:
        _shared.clear()
    same, metadata = _shared.setdefault, head.metadata
    metadata.namespace = same(metadata.namespace, metadata.namespace)
    if metadata.labels:
        metadata.labels = {
            same(key, key): value if key == names.LABEL_PARENT_UID else same(value, value)
            for key, value in metadata.labels.items()
        }
    if metadata.finalizers:
        metadata.finalizers = [same(name, name) for name in metadata.finalizers]
    for owner in metadata.owner_references or ():
        owner.kind, owner.name, owner.uid = (same(text, text) for text in (owner.kind, owner.name, owner.uid))
        owner.api_version = same(owner.api_version, owner.api_version)
    if head.spec is not None:
        if head.spec.node_name:
            head.spec.node_name = same(head.spec.node_name, head.spec.node_name)
        if head.spec.scheduler_name:
            head.spec.scheduler_name = same(head.spec.scheduler_name, head.spec.scheduler_name)
    if metadata.annotations is not None:
        metadata.annotations.claim = same(metadata.annotations.claim, metadata.annotations.claim)
