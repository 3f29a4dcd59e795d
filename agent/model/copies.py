"""Copies in targets of objects that pods need: same name, same namespace, same content (wire contract, 6).

Labels and annotations with our prefixes are never copied: on a copy they identify its original. Annotations that
clients keep for themselves are not copied either, nor the largest ones if all together exceed the size limit.
Everything else is copied, unknown fields included.
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
"""Fields by kind that each cluster sets itself: Secrets with tokens of a ServiceAccount."""
TOKEN_TYPE = "kubernetes.io/service-account-token"
"""Type of Secrets with a ServiceAccount token, which is valid only in its own cluster."""


def copy_of(kind: Kind, original: Mapping[str, Any], *, cluster_name: str, cluster_uid: str) -> Raw:
    """Return the copy to create in a target.

    :param cluster_name: name of the source, may be empty
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
    """Return True if a copy has exactly the wanted content, labels and annotations."""
    metadata, should = copy["metadata"], wanted["metadata"]
    return all(
        equivalent(metadata.get(field) or {}, should[field]) for field in ("labels", "annotations")
    ) and _same_fields(copy, wanted, _fields(wanted["kind"], copy, wanted))


def must_be_replaced(copy: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True if the API server would refuse the update, so that the copy has to be deleted and recreated."""
    if not _same_fields(copy, wanted, ("type",)):
        return True
    fields = _fields(wanted["kind"], copy, wanted)
    return bool(copy.get("immutable")) and not _same_fields(copy, wanted, fields)


def revised(copy: Mapping[str, Any], wanted: Raw) -> Raw:
    """Return the body of an update to the wanted copy; its resourceVersion makes it fail if the copy has changed."""
    kept = {field: copy["metadata"][field] for field in ("uid", "resourceVersion")}
    owners = {
        field: copy["metadata"][field] for field in ("finalizers", "ownerReferences") if copy["metadata"].get(field)
    }
    own = {field: copy[field] for field in _CLUSTERS_OWN.get(wanted["kind"], ()) if field in copy}
    return {**own, **wanted, "metadata": {**wanted["metadata"], **kept, **owners}}


class Content(NamedTuple):
    """Functions that define which fields of a copy follow its original; each takes the copy and the wanted copy."""

    same: Callable[[Mapping[str, Any], Raw], bool]
    must_be_replaced: Callable[[Mapping[str, Any], Raw], bool]
    revised: Callable[[Mapping[str, Any], Raw], Raw]


EXACT = Content(same_content, must_be_replaced, revised)
"""All fields follow the original."""


def belongs_to(copy: Mapping[str, Any], original_uid: str, cluster_uid: str) -> bool:
    """Return True if an object is a copy from this source.

    Copies that Admiralty made lack the cluster's UID: such a copy is ours only if its parent UID matches (ruling 4).
    """
    labels = copy["metadata"].get("labels") or {}
    cluster = labels.get(names.LABEL_PARENT_CLUSTER_UID)
    if cluster:
        return bool(cluster == cluster_uid)
    return original_uid == parent_uid(copy)


def parent_uid(copy: Mapping[str, Any]) -> str:
    """Return the UID of a copy's original; empty if the object is no copy. v0.10 wrote it as an annotation."""
    metadata = copy["metadata"]
    found = (metadata.get("labels") or {}).get(names.LABEL_PARENT_UID)
    return str(found or (metadata.get("annotations") or {}).get(names.LABEL_PARENT_UID) or "")


def is_same_or_upstream(found: Mapping[str, Any], original: Mapping[str, Any]) -> bool:
    """Return True if an object in a target is the original itself, or the object that the original was copied from."""
    uid = found["metadata"]["uid"]
    return bool(uid == original["metadata"]["uid"] or uid == parent_uid(original))


def travelling(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations of an original or a pod that are copied to other clusters."""
    return {key: value for key, value in _theirs(annotations).items() if not is_of_client(key)}


def _theirs(pairs: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (pairs or {}).items() if not names.is_ours(key)}


def _fields(kind: str, *objects: Mapping[str, Any]) -> Iterable[str]:
    return sorted({field for each in objects for field in each} - _HEAD - _CLUSTERS_OWN.get(kind, frozenset()))


def _same_fields(copy: Mapping[str, Any], wanted: Mapping[str, Any], fields: Iterable[str]) -> bool:
    return all(equivalent(copy.get(field), wanted.get(field)) for field in fields)
