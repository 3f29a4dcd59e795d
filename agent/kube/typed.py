"""The typed part of objects: what rooms look at most, without decoding the rest."""

import msgspec

from agent.api import names


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
    pod_missing_since: str = msgspec.field(default="", name=names.ANNOTATION_POD_MISSING_SINCE)


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


_decoder = msgspec.json.Decoder(Head)
_shared: dict[str, str] = {}
_SHARED_LIMIT = 4096


def read(raw: bytes) -> Head:
    """The head of an object as JSON. What is the same in many objects, as in the pods of a template, is one string."""
    head = _decoder.decode(raw)
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
    if head.spec is not None:
        head.spec.node_name = same(head.spec.node_name, head.spec.node_name)
        head.spec.scheduler_name = same(head.spec.scheduler_name, head.spec.scheduler_name)
    if metadata.annotations is not None:
        metadata.annotations.claim = same(metadata.annotations.claim, metadata.annotations.claim)
    return head
