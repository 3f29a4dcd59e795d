"""Copies in targets of objects that pods need: same name, same namespace, same content (wire contract, 6).

Keys of ours are never copied: they say whose child the copy is. Nor are annotations that clients of the source keep for
themselves, and the largest of those that do not fit beside ours. All else is copied, unknown fields included.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from agent.api import names
from agent.api.kinds import SERVICE_ACCOUNTS, Kind
from agent.api.labels import is_of_client
from agent.model import owner_labels
from agent.model.annotations import size, within
from agent.model.diff import equivalent

Raw = dict[str, Any]

_HEAD = frozenset(("apiVersion", "kind", "metadata", "status"))
_CLUSTERS_OWN = {SERVICE_ACCOUNTS.name: frozenset(("secrets",))}
"""By name of a kind, fields that each cluster fills in itself: tokens of service accounts."""
TOKEN_TYPE = "kubernetes.io/service-account-token"
"""Type of secrets that belong to a service account of their own cluster, and mean nothing to another."""


def copy_of(kind: Kind, original: Mapping[str, Any], *, cluster_name: str, cluster_uid: str) -> Raw:
    """The copy to create in a target.

    :param cluster_name: of the source, may be empty
    :param cluster_uid: UID of the source's kube-system namespace (ruling 4)
    """
    metadata = original["metadata"]
    own = owner_labels.annotations(metadata)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {
                **_theirs(metadata.get("labels")),
                **owner_labels.labels(metadata, cluster_name=cluster_name, cluster_uid=cluster_uid),
            },
            "annotations": {**within(travelling(metadata.get("annotations")), size(own)), **own},
        },
        **{field: original[field] for field in _fields(kind.name, original)},
    }


def same_content(copy: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a copy is as it should be: content, labels and annotations, no more and no less."""
    metadata, should = copy["metadata"], wanted["metadata"]
    return all(
        equivalent(metadata.get(field) or {}, should[field]) for field in ("labels", "annotations")
    ) and _same_fields(copy, wanted, _fields(wanted["kind"], copy, wanted))


def must_be_replaced(copy: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether API servers would refuse to change the copy, so that it has to be deleted and made again."""
    if not _same_fields(copy, wanted, ("type",)):
        return True
    fields = _fields(wanted["kind"], copy, wanted)
    return bool(copy.get("immutable")) and not _same_fields(copy, wanted, fields)


def revised(copy: Mapping[str, Any], wanted: Raw) -> Raw:
    """The body that turns this very copy, and none that has changed since, into what is wanted."""
    kept = {field: copy["metadata"][field] for field in ("uid", "resourceVersion")}
    owners = {
        field: copy["metadata"][field] for field in ("finalizers", "ownerReferences") if copy["metadata"].get(field)
    }
    own = {field: copy[field] for field in _CLUSTERS_OWN.get(wanted["kind"], ()) if field in copy}
    return {**own, **wanted, "metadata": {**wanted["metadata"], **kept, **owners}}


class Content(NamedTuple):
    """What of a copy is decided by its original. All three are asked of a copy and what is wanted of it."""

    same: Callable[[Mapping[str, Any], Raw], bool]
    must_be_replaced: Callable[[Mapping[str, Any], Raw], bool]
    revised: Callable[[Mapping[str, Any], Raw], Raw]


EXACT = Content(same_content, must_be_replaced, revised)
"""Everything."""


def belongs_to(copy: Mapping[str, Any], original_uid: str, cluster_uid: str) -> bool:
    """Whether an object is a copy of ours.

    One without a cluster's UID was made by Admiralty: it is ours only where it is the child of this very original
    (ruling 4).
    """
    labels = copy["metadata"].get("labels") or {}
    cluster = labels.get(names.LABEL_PARENT_CLUSTER_UID)
    if cluster:
        return bool(cluster == cluster_uid)
    return original_uid == parent_uid(copy)


def parent_uid(copy: Mapping[str, Any]) -> str:
    """UID of the original: a label, which v0.10 wrote as an annotation; empty for what is no copy."""
    metadata = copy["metadata"]
    found = (metadata.get("labels") or {}).get(names.LABEL_PARENT_UID)
    return str(found or (metadata.get("annotations") or {}).get(names.LABEL_PARENT_UID) or "")


def is_same_or_upstream(found: Mapping[str, Any], original: Mapping[str, Any]) -> bool:
    """Whether what is found in a target is the original itself, or what the original is a copy of."""
    uid = found["metadata"]["uid"]
    return bool(uid == original["metadata"]["uid"] or uid == parent_uid(original))


def travelling(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations of an original, or of a pod, that mean something in another cluster."""
    return {key: value for key, value in _theirs(annotations).items() if not is_of_client(key)}


def _theirs(pairs: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (pairs or {}).items() if not names.is_ours(key)}


def _fields(kind: str, *objects: Mapping[str, Any]) -> Iterable[str]:
    return sorted({field for each in objects for field in each} - _HEAD - _CLUSTERS_OWN.get(kind, frozenset()))


def _same_fields(copy: Mapping[str, Any], wanted: Mapping[str, Any], fields: Iterable[str]) -> bool:
    return all(equivalent(copy.get(field), wanted.get(field)) for field in fields)
