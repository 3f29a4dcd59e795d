"""Update of an existing object to its manifest, owner references, and fields that server-side apply ignores. Pure."""

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.api.kinds import APPLIED_MANIFEST_WORKS
from agent.api.names import is_ours
from agent.api.names.works import CONFIG_HASH, WORK_MANAGER
from agent.model.jsonpath import InvalidPath, find

Raw = dict[str, Any]

ON_SPOKE_CHANGE = "OnSpokeChange"

ANOTHER_WORK = "another ManifestWork"
_RBAC = "rbac.authorization.k8s.io"
_ALLOCATED = (
    ("spec", "clusterIP"),
    ("spec", "clusterIPs"),
    ("spec", "ipFamilies"),
    ("spec", "ipFamilyPolicy"),
    ("spec", "healthCheckNodePort"),
)
_FROM_SERVER: Mapping[tuple[str, str], Sequence[tuple[str, ...]]] = {
    ("", "Service"): _ALLOCATED,
    ("", "ServiceAccount"): (("secrets",), ("imagePullSecrets",)),
    ("", "PersistentVolumeClaim"): (("spec",),),
    ("", "PersistentVolume"): (("spec", "claimRef"),),
    ("", "Pod"): (("spec",),),
    ("batch", "Job"): (("spec", "selector"), ("spec", "template", "metadata", "labels")),
    ("apiregistration.k8s.io", "APIService"): (("spec", "caBundle"),),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (("spec", "conversion"),),
}
"""Fields that the API server or a controller sets. They stay if the manifest lacks them."""


class InvalidIgnoredField(Exception):
    """An entry of ignoreFields that cannot be used."""


def merged(existing: Raw, manifest: Raw) -> Raw:
    """Return the object to write: the manifest's fields, and the status, finalizers and metadata of the existing one.

    Labels and annotations are merged. A key is removed if the work agent has set it earlier and the manifest no longer
    has it, or if the manifest has it with a dash at its end.
    """
    body = copy.deepcopy(manifest)
    if "status" in existing:
        body["status"] = existing["status"]
    metadata = {key: value for key, value in existing["metadata"].items() if key != "managedFields"}
    given = manifest.get("metadata") or {}
    for field in ("labels", "annotations"):
        owned = _owned(existing["metadata"].get("managedFields") or (), field)
        result = _texts(metadata.get(field) or {}, given.get(field) or {}, owned)
        metadata.pop(field, None)
        if result:
            metadata[field] = result
    references = [*(metadata.get("ownerReferences") or ())]
    for reference in given.get("ownerReferences") or ():
        references = with_owner(references, reference)
    if references:
        metadata["ownerReferences"] = references
    body["metadata"] = metadata
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    for path in _FROM_SERVER.get((group, manifest["kind"]), ()):
        _keep(existing, body, path)
    _keep_bundles(existing.get("webhooks"), body.get("webhooks"))
    if (group, manifest["kind"]) == ("", "Secret"):
        body.setdefault("type", existing.get("type"))
    return body


def _keep_bundles(existing: Any, webhooks: Any) -> None:
    """Fill in certificates of webhooks that another controller has set."""
    if not isinstance(existing, list) or not isinstance(webhooks, list):
        return
    known = {each.get("name"): (each.get("clientConfig") or {}).get("caBundle") for each in existing}
    for each in webhooks:
        config = each.get("clientConfig")
        if isinstance(config, dict) and not config.get("caBundle") and (bundle := known.get(each.get("name"))):
            config["caBundle"] = bundle


def _texts(existing: Mapping[str, str], given: Mapping[str, str], owned: frozenset[str]) -> dict[str, str]:
    removed = {key[:-1] for key in given if key.endswith("-")}
    wanted = {key: value for key, value in given.items() if not key.endswith("-")}
    stale = {key for key in owned if key not in wanted and not is_ours(key)}
    return {key: value for key, value in existing.items() if key not in removed | stale} | wanted


def _owned(managed: Iterable[Mapping[str, Any]], field: str) -> frozenset[str]:
    """Return the labels or annotations that the work agent has set by updates."""
    return frozenset(
        key[2:]
        for entry in managed
        if entry.get("manager") == WORK_MANAGER and entry.get("operation") == "Update" and not entry.get("subresource")
        for key in (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{field}") or {})
        if key.startswith("f:")
    )


def _keep(existing: Any, body: Raw, path: Sequence[str]) -> None:
    """Fill in what the body lacks at a path from the existing object."""
    *outer, last = path
    for key in outer:
        existing = existing.get(key) if isinstance(existing, dict) else None
        inner = body.setdefault(key, {})
        if not isinstance(existing, dict) or not isinstance(inner, dict):
            return
        body = inner
    if last in existing:
        body[last] = overlay(existing[last], body[last]) if last in body else copy.deepcopy(existing[last])


def overlay(existing: Any, given: Any) -> Any:
    """Return a value with all fields of the given one, and further fields of the existing one.

    Lists of named items are merged by name.
    """
    if isinstance(existing, dict) and isinstance(given, dict):
        return {**existing, **{key: overlay(existing.get(key), value) for key, value in given.items()}}
    if isinstance(existing, list) and isinstance(given, list) and _are_named(existing) and _are_named(given):
        known = {each["name"]: each for each in existing}
        names = {each["name"] for each in given}
        items = [overlay(known.get(each["name"], {}), each) for each in given]
        return items + [each for each in existing if each["name"] not in names]
    return given


def _are_named(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(each, dict) and "name" in each for each in items)


def must_be_replaced(existing: Raw, manifest: Raw) -> bool:
    """Return whether the manifest changes a field that cannot be updated, so that the object must be recreated."""
    kind = manifest["kind"]
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    if group == _RBAC and kind in ("RoleBinding", "ClusterRoleBinding"):
        wanted, found = manifest.get("roleRef") or {}, existing.get("roleRef") or {}
        return any(wanted.get(key) != found.get(key) for key in ("kind", "name"))
    if (group, kind) == ("", "Secret"):
        return bool((manifest.get("type") or "Opaque") != (existing.get("type") or "Opaque"))
    return False


def owner_reference(name: str, uid: str) -> Raw:
    """Return the owner reference to an AppliedManifestWork."""
    kind = APPLIED_MANIFEST_WORKS
    return {"apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": uid}


def with_owner(references: Sequence[Raw], owner: Raw) -> list[Raw]:
    """Return the owner references with another one, once."""
    found = list(references)
    return found if any(each.get("uid") == owner.get("uid") for each in found) else [*found, owner]


def without_owner(references: Sequence[Raw], uid: str) -> list[Raw]:
    """Return the owner references except that to a UID."""
    return [each for each in references if each.get("uid") != uid]


def is_owned(obj: Raw, uid: str) -> bool:
    """Return whether an object has an owner reference to a UID."""
    return any(each.get("uid") == uid for each in obj["metadata"].get("ownerReferences") or ())


def has_other_works(obj: Raw, uid: str) -> bool:
    """Return whether another AppliedManifestWork owns an object, too."""
    return any(
        each.get("kind") == APPLIED_MANIFEST_WORKS.name
        and str(each.get("apiVersion", "")).startswith(APPLIED_MANIFEST_WORKS.group)
        and each.get("uid") != uid
        for each in obj["metadata"].get("ownerReferences") or ()
    )


def is_made_by_works(obj: Raw) -> bool:
    """Return whether the work agent has written an object."""
    return any(map(_is_work_agent, _managed(obj)))


def last_writer(obj: Raw) -> str:
    """Return the field manager that was the last to write an object, or `ANOTHER_WORK`."""

    def when(entry: Mapping[str, Any]) -> tuple[str, bool]:
        return str(entry.get("time") or ""), not _is_work_agent(entry)

    last = max((each for each in _managed(obj) if each.get("subresource") != "status"), key=when, default={})
    return ANOTHER_WORK if _is_work_agent(last) else str(last.get("manager") or "another writer")


def _is_work_agent(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("manager", "")).startswith(WORK_MANAGER)


def _managed(obj: Raw) -> Sequence[Mapping[str, Any]]:
    return obj["metadata"].get("managedFields") or ()


def without_ignored(body: Raw, rules: Sequence[Mapping[str, Any]]) -> Raw:
    """Return a body without the fields of rules that ignore them while the object exists.

    :raises InvalidIgnoredField: if a rule is invalid or not supported
    """
    left = copy.deepcopy(body)
    for rule in rules:
        if rule.get("condition") == ON_SPOKE_CHANGE:
            continue
        for path in rule.get("jsonPaths") or ():
            _remove_path(left, str(path))
        for pointer in rule.get("jsonPointers") or ():
            _remove_pointer(left, str(pointer))
        if rule.get("jqPathExpressions"):
            raise InvalidIgnoredField("jqPathExpressions are not supported: use jsonPaths or jsonPointers")
    return left


def _remove_path(body: Raw, path: str) -> None:
    before, _, last = path.rpartition(".")
    try:
        parents = find(before, body) if before else [body]
    except InvalidPath as error:
        raise InvalidIgnoredField(f"JSON path error in {path!r}: {error}") from error
    for parent in parents:
        if isinstance(parent, dict):
            parent.pop(last, None)


def _remove_pointer(body: Raw, pointer: str) -> None:
    if not pointer.startswith("/"):
        raise InvalidIgnoredField(f"JSON Pointer error in {pointer!r}: it must begin with /")
    *outer, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))
    found: Any = body
    for part in outer:
        found = _item(found, part)
    if isinstance(found, dict):
        found.pop(last, None)
    elif isinstance(found, list) and last.isdigit() and int(last) < len(found):
        del found[int(last)]


def _item(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    return value[int(part)] if isinstance(value, list) and part.isdigit() and int(part) < len(value) else None


def with_hash(body: Raw, of: Raw) -> Raw:
    """Return a body with the annotation that has the digest of a manifest."""
    text = json.dumps(of, sort_keys=True).encode()
    value = hashlib.md5(text, usedforsecurity=False).hexdigest()
    annotations = {**(body["metadata"].get("annotations") or {}), CONFIG_HASH: value}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}
