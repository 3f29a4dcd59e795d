"""Server-side apply of manifests: the applied body, the order of kinds, and whether an object is unchanged.

An object is unchanged if its annotation has the digest of the manifest and our field manager still owns every field of
the manifest: a client that changes a field becomes its owner. Values are not compared. The API server normalizes many
of them (`1000m`), and changes by admission or by other controllers of ours are allowed.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from agent.api.kinds import Kind
from agent.api.names.p2code import ANNOTATION_APPLIED, FIELD_MANAGER

Raw = dict[str, Any]

_DIGEST_LENGTH = 16
_METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
_NOT_OWNED = {"apiVersion", "kind", "name", "namespace"}
"""Fields of an object or its metadata that managedFields never lists."""

_BASES = (
    "Namespace",
    *("PriorityClass", "CustomResourceDefinition", "StorageClass", "PersistentVolume", "PodSecurityPolicy"),
)
_WORKLOADS = ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController", "Job", "CronJob")
_ADMISSION = (
    *("APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
)
_ORDER = (
    _BASES,
    ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    ("ServiceAccount", "PodDisruptionBudget", "NetworkPolicy", "ResourceQuota", "LimitRange"),
    ("Secret", "ConfigMap", "PersistentVolumeClaim"),
    ("Service",),
    _WORKLOADS,
    _ADMISSION,
)
"""Kinds in the order in which Open Cluster Management's work agent applies them."""
_RANKS = {kind: rank for rank, kinds in enumerate(_ORDER) for kind in kinds}
WORKLOADS = _RANKS["Pod"]
"""Rank of pods and of kinds that create pods. Kinds with a higher rank only refer to these."""


def rank(kind: str) -> int:
    """Return the position of a kind in the order of apply, lowest first."""
    return _RANKS.get(kind, len(_ORDER))


class Place(NamedTuple):
    """A kind and a namespace with objects of that kind; the namespace is empty for cluster-scoped kinds."""

    kind: Kind
    namespace: str

    def __str__(self) -> str:
        """Return `KIND.GROUP/NAMESPACE`, as `parsed` reads it."""
        kind = self.kind
        return f"{kind.name}.{kind.group}/{self.namespace}" if kind.group else f"{kind.name}/{self.namespace}"

    @property
    def rank(self) -> int:
        """Position in the order of apply, lowest first."""
        return rank(self.kind.name)

    @property
    def stage(self) -> int:
        """Position in the order of deletion, lowest first: workloads, objects that pods may still need, namespaces."""
        return 0 if self.rank >= WORKLOADS else 1 if self.rank > _RANKS["Namespace"] else 2


def parsed(place: str) -> tuple[str, str, str]:
    """Parse a place's text into the kind's group, the kind's name and the namespace."""
    kind, _, namespace = place.rpartition("/")
    name, _, group = kind.partition(".")
    return group, name, namespace


def title(kind: str, namespace: str, name: str) -> str:
    """Return an object's name for messages: `KIND NAMESPACE/NAME`, or `KIND NAME` if it has no namespace."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def flaw(manifest: Mapping[str, Any]) -> str:
    """Return the first invalid field of a manifest, with the reason; empty if it is valid."""
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str):
            return f"{field} is missing or no string"
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "metadata.name is missing or no string"
    if not isinstance(metadata.get("namespace") or "", str):
        return "metadata.namespace is no string"
    maps = {f"metadata.{field}": metadata.get(field) for field in ("labels", "annotations")}
    maps |= {field: manifest.get(field) for field in ("data", "stringData") if manifest["kind"] == "Secret"}
    maps |= {"spec": manifest.get("spec")}
    return next((f"{field} is no map" for field, each in maps.items() if not isinstance(each or {}, Mapping)), "")


def sent(manifest: Mapping[str, Any], labels: Mapping[str, str]) -> Raw:
    """Return the body to apply: the manifest without server-set fields, with our labels and the digest."""
    body = {key: value for key, value in manifest.items() if key != "status"}
    given = manifest.get("metadata") or {}
    metadata = {key: given[key] for key in _METADATA if given.get(key)}
    body["metadata"] = metadata | {"labels": {**(given.get("labels") or {}), **labels}}
    if body.get("kind") == "Secret" and body.get("apiVersion") == "v1":
        _encode(body)
    note = {ANNOTATION_APPLIED: _digest(body)}
    body["metadata"]["annotations"] = {**(given.get("annotations") or {}), **note}
    return body


def _encode(secret: Raw) -> None:
    """Move stringData into data.

    managedFields does not list stringData, so apply would not remove a key that the manifest no longer has.
    """
    plain = secret.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        secret["data"] = (secret.get("data") or {}) | encoded


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]


def is_unchanged(metadata: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Return True if an object still has the body that `sent` returned, by its digest and managedFields."""
    noted = (metadata.get("annotations") or {}).get(ANNOTATION_APPLIED)
    if noted != body["metadata"]["annotations"][ANNOTATION_APPLIED]:
        return False
    fields = next(
        (
            entry.get("fieldsV1")
            for entry in metadata.get("managedFields") or ()
            if entry.get("manager") == FIELD_MANAGER
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ),
        None,
    )
    if not fields:
        return False
    spec = {key: value for key, value in body.items() if key not in _NOT_OWNED and key != "metadata"}
    head = {key: value for key, value in body["metadata"].items() if key not in _NOT_OWNED}
    return _owns(fields, spec) and _owns(fields.get("f:metadata") or {}, head)


def _owns(fields: Mapping[str, Any], value: object) -> bool:
    """Return True if a fieldsV1 tree owns all fields of a value; a leaf owns everything below it."""
    if isinstance(value, Mapping):
        return all(
            f"f:{key}" in fields and _owns_below(fields[f"f:{key}"], each)
            for key, each in value.items()
            if not _is_empty(each)
        )
    if isinstance(value, list):
        return all(_owns_item(fields, each) for each in value)
    return True


def _owns_below(fields: Mapping[str, Any], value: object) -> bool:
    return not fields or _owns(fields, value)


def _owns_item(fields: Mapping[str, Any], item: object) -> bool:
    if not isinstance(item, Mapping):
        return f"v:{json.dumps(item, separators=(',', ':'))}" in fields
    return any(_owns_below(below, item) for keys, below in _keyed(fields) if _is_of(keys, item))


def _keyed(fields: Mapping[str, Any]) -> Iterator[tuple[Raw, Mapping[str, Any]]]:
    return ((json.loads(name[2:]), below) for name, below in fields.items() if name.startswith("k:"))


def _is_of(keys: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """Return True if a list item has these merge keys; a key that the item lacks has its default value."""
    return all(key not in item or item[key] == value for key, value in keys.items())


def _is_empty(value: object) -> bool:
    return value is None or value == {} or value == []


def autoscaled(manifests: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str, str]]:
    """Return kind, namespace and name of all objects that a HorizontalPodAutoscaler of the manifests scales."""
    found = set()
    for each in manifests:
        target = (
            (each.get("spec") or {}).get("scaleTargetRef") if each.get("kind") == "HorizontalPodAutoscaler" else None
        )
        if isinstance(target, Mapping):
            namespace = str((each.get("metadata") or {}).get("namespace") or "")
            found.add((str(target.get("kind")), namespace, str(target.get("name"))))
    return frozenset(found)


def left_to_scaler(metadata: Mapping[str, Any], body: Raw) -> Raw:
    """Return the body to apply, without replicas if a client of the scale subresource has set them."""
    by_scale = any(
        entry.get("subresource") == "scale" and "f:replicas" in (entry.get("fieldsV1") or {}).get("f:spec", {})
        for entry in metadata.get("managedFields") or ()
    )
    if not by_scale:
        return body
    return body | {"spec": {key: value for key, value in (body.get("spec") or {}).items() if key != "replicas"}}
