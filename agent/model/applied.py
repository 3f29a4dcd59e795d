"""What server-side apply keeps of manifests: what of them is sent, in which order, and whether an object still has it.

An object is as it was applied where the digest of its manifest is the one that we noted on it, and we still own every
field of the manifest: whoever changes a field takes it over. Values are not compared: API servers write many of them in
another way (`1000m`), and what admission or another controller of ours has been allowed to change stays so.
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
"""Fields at the top, or of metadata, that nobody owns."""

_ORDER = (
    ("Namespace",),
    ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    ("ServiceAccount", "PodDisruptionBudget", "NetworkPolicy", "ResourceQuota", "LimitRange"),
    ("Secret", "ConfigMap", "PersistentVolumeClaim"),
    ("Service",),
    ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController", "Job", "CronJob"),
)
"""Open Cluster Management's work agent goes by it."""
_RANKS = {kind: rank for rank, kinds in enumerate(_ORDER) for kind in kinds}
WORKLOADS = _RANKS["Pod"]
"""Rank of what makes pods. What has a higher one only points at it."""


def rank(kind: str) -> int:
    """When objects of a kind are applied: those of the lowest rank first."""
    return _RANKS.get(kind, WORKLOADS + 1)


class Place(NamedTuple):
    """Where objects of a kind are; no namespace for those of the whole cluster."""

    kind: Kind
    namespace: str

    def __str__(self) -> str:
        """`KIND.GROUP/NAMESPACE`, as `parsed` reads it."""
        kind = self.kind
        return f"{kind.name}.{kind.group}/{self.namespace}" if kind.group else f"{kind.name}/{self.namespace}"

    @property
    def rank(self) -> int:
        """When its objects are applied."""
        return rank(self.kind.name)

    @property
    def stage(self) -> int:
        """What has this number is deleted before what has a higher one: pods may need the rest until they are gone."""
        return 0 if self.rank >= WORKLOADS else 1 if self.rank > _RANKS["Namespace"] else 2


def parsed(place: str) -> tuple[str, str, str]:
    """Group and name of a place's kind, and its namespace."""
    kind, _, namespace = place.rpartition("/")
    name, _, group = kind.partition(".")
    return group, name, namespace


def title(kind: str, namespace: str, name: str) -> str:
    """How users call an object."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def flaw(manifest: Mapping[str, Any]) -> str:
    """What makes a manifest none, by its field; empty if nothing does."""
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
    """What is applied of a manifest: without what API servers write themselves, with our labels and its digest."""
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
    """What is in stringData goes into data: nobody owns it, and what is no longer there would stay in the object."""
    plain = secret.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        secret["data"] = (secret.get("data") or {}) | encoded


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]


def is_unchanged(metadata: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether an object, by its metadata, is as `sent` would have it."""
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
    """Whether a tree of fieldsV1 has all that is in a value; a leaf is owned with all that is below it."""
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
    """Whether an item has these keys; those that it does not name have their default."""
    return all(key not in item or item[key] == value for key, value in keys.items())


def _is_empty(value: object) -> bool:
    return value is None or value == {} or value == []


def autoscaled(manifests: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str, str]]:
    """Kind, namespace and name of everything that a HorizontalPodAutoscaler among the manifests scales."""
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
    """What is applied to an object whose replicas an autoscaler has set: all but these."""
    by_scale = any(
        entry.get("subresource") == "scale" and "f:replicas" in (entry.get("fieldsV1") or {}).get("f:spec", {})
        for entry in metadata.get("managedFields") or ()
    )
    if not by_scale:
        return body
    return body | {"spec": {key: value for key, value in (body.get("spec") or {}).items() if key != "replicas"}}
