"""Desired service account and bindings of a Source, and the actions that create them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from agent.api import names
from agent.api.conditions import Status
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, SERVICE_ACCOUNTS, SOURCE_KINDS, Kind
from agent.api.roles import FEATURES, OPTIONAL_FEATURES, feature_role
from agent.model import source as model
from agent.model.diff import merge_patch

Raw = dict[str, Any]
Key = tuple[str, str]

RBAC_GROUP = "rbac.authorization.k8s.io"
CONDITION = "AccountExclusive"
"""Condition of a Source: whether nothing else acts by its service account. Absent until something did."""


@dataclass(frozen=True)
class Roles:
    """Names of the ClusterRoles that bindings refer to."""

    source: str
    viewer: str


class SourceAndBindings(msgspec.Struct, frozen=True):
    """A Source and its existing bindings; `source` is None if it has been deleted."""

    key: Key
    source: Raw | None
    bindings: Mapping[Kind, Mapping[str, Raw]]
    roles: Roles
    withheld: frozenset[Key] = frozenset()
    """Accounts that must not have rights yet."""


class Create(NamedTuple):
    """Create an object; if it exists, update it to the manifest."""

    kind: Kind
    manifest: Raw


class Patch(NamedTuple):
    """Change an object by a merge patch."""

    kind: Kind
    key: Key
    body: Raw


class Delete(NamedTuple):
    """Delete the object with this UID."""

    kind: Kind
    key: Key
    uid: str


Action = Create | Patch | Delete

Told = tuple[str, Status, str, str]
"""Type, status, reason and message of a condition."""


def kind_of(key: Key) -> Kind:
    """Return Source, or ClusterSource for a key without a namespace."""
    return SOURCE_KINDS.of(key[0])


def decide(view: SourceAndBindings) -> list[Action]:
    """Return the actions after which exactly the wanted bindings exist. The service account is handled separately."""
    wanted = wanted_bindings(view.key, view.source, view.roles, view.withheld) if view.source is not None else {}
    actions: list[Action] = []
    for kind, name in binding_names(view.key):
        actual = view.bindings.get(kind, {}).get(name)
        manifest = wanted.get((kind, name))
        if manifest is not None:
            actions += adjust(kind, actual, manifest)
        elif actual is not None:
            actions.append(_delete(kind, actual))
    return actions


def adjust(kind: Kind, actual: Raw | None, manifest: Raw) -> list[Action]:
    """Return the actions that make the managed fields of a binding equal to the manifest."""
    if actual is None:
        return [Create(kind, manifest)]
    if actual.get("roleRef") != manifest["roleRef"]:
        # The API server refuses to change a roleRef.
        return [_delete(kind, actual), Create(kind, manifest)]
    metadata = manifest["metadata"]
    now = {
        "metadata": {
            "labels": _subset(actual["metadata"].get("labels"), metadata["labels"]),
            "annotations": _subset(actual["metadata"].get("annotations"), metadata["annotations"]),
            "ownerReferences": actual["metadata"].get("ownerReferences"),
        },
        "subjects": actual.get("subjects"),
    }
    wanted = {
        "metadata": {
            "labels": metadata["labels"],
            "annotations": metadata["annotations"],
            "ownerReferences": metadata.get("ownerReferences"),
        },
        "subjects": manifest["subjects"],
    }
    body = merge_patch(now, wanted)
    return [Patch(kind, _key(actual), body)] if body else []


def binding_names(key: Key) -> list[tuple[Kind, str]]:
    """Return kind and name of all bindings that a Source may have (wire contract, 2.3), those of features last."""
    namespace, name = key
    if namespace:
        kind = ROLE_BINDINGS
        own, viewer = names.source_binding(name), names.source_viewer_binding(namespace, name)
    else:
        kind = CLUSTER_ROLE_BINDINGS
        own, viewer = names.cluster_source_binding(name), names.cluster_source_viewer_binding(name)
    features = ((kind, names.feature_binding(namespace, name, feature)) for feature in FEATURES)
    return [(kind, own), (CLUSTER_ROLE_BINDINGS, viewer), *features]


def wanted_bindings(
    key: Key, source: Raw, roles: Roles, withheld: frozenset[Key] = frozenset()
) -> dict[tuple[Kind, str], Raw]:
    """Return the manifests of a Source's bindings by kind and name; empty if no subject is granted rights."""
    granted = [each for each in subjects(key, source) if account_of(each) not in withheld]
    if not granted:
        return {}
    bindings = {}
    for (kind, name), role in zip(binding_names(key), _role_names(source, roles), strict=True):
        if not role:
            continue
        metadata: Raw = {"name": name, **_marks(key)}
        if kind.namespaced:
            metadata["namespace"] = key[0]
        if kind.namespaced or not key[0]:
            # A namespaced owner cannot own a cluster-scoped object: the controller deletes that.
            metadata["ownerReferences"] = [_owner(key, source)]
        bindings[kind, name] = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
            "subjects": granted,
        }
    return bindings


def _role_names(source: Raw, roles: Roles) -> list[str]:
    """Return the ClusterRole of each of `binding_names`; empty for a feature that the Source does not allow."""
    allowed = model.features(source.get("spec") or {})
    features = (feature_role(roles.source, name) if name in allowed else "" for name in FEATURES)
    return [roles.source, roles.viewer, *features]


def subjects(key: Key, source: Raw) -> list[Raw]:
    """Return the subjects of the bindings, the service account first (wire contract, 8.1)."""
    found: list[Raw] = []
    account = service_account_key(key, source)
    if account is not None:
        found.append({"kind": "ServiceAccount", "name": account[1], "namespace": account[0]})
    user = (source.get("spec") or {}).get("userName")
    if user:
        found.append({"apiGroup": RBAC_GROUP, "kind": "User", "name": user})
    return found


def account_of(subject: Raw) -> Key | None:
    """Return namespace and name of a subject's service account, also if the subject is its user name; else None."""
    if subject.get("kind") == "ServiceAccount":
        return (subject.get("namespace", ""), subject["name"])
    return model.named_account({"userName": subject.get("name")})


def granted_accounts(view: SourceAndBindings) -> frozenset[Key]:
    """Return the service accounts in any binding of a Source: a user may have deleted one of the bindings."""
    bindings = (binding for by_name in view.bindings.values() for binding in by_name.values())
    found = (subject for binding in bindings for subject in binding.get("subjects") or ())
    return frozenset(account for each in found if (account := account_of(each)) is not None)


def service_account_key(key: Key, source: Raw) -> Key | None:
    """Return namespace and name of the service account; None if the Source names none, or only one of the two."""
    spec = source.get("spec") or {}
    if key[0]:
        name = spec.get("serviceAccountName")
        return (key[0], name) if name else None
    account = spec.get("serviceAccount") or {}
    if account.get("name") and account.get("namespace"):
        return (account["namespace"], account["name"])
    return None


def service_account(key: Key, source: Raw, account: Key) -> Raw:
    """Return the manifest of the service account. The Source owns it, so that both are deleted together."""
    return {
        "apiVersion": "v1",
        "kind": SERVICE_ACCOUNTS.name,
        "metadata": {
            "name": account[1],
            "namespace": account[0],
            **_marks(key),
            "ownerReferences": [_owner(key, source)],
        },
    }


def flaw(key: Key, source: Raw) -> str | None:
    """Return the flaw of the spec with the remedy; None if it has none."""
    found = model.flaw(source.get("spec") or {}, namespaced=bool(key[0]))
    return f"{found.field} {found.reason}" if found else None


def granted(key: Key, source: Raw, roles: Roles) -> str:
    """Return the message of the condition Ready for a bound Source."""
    spec = source.get("spec") or {}
    chosen = [name for name in model.features(spec) if name in OPTIONAL_FEATURES]
    more = f", with {', '.join(chosen)}" if chosen else ""
    advice = model.advice(spec, namespaced=bool(key[0]))
    return f"may run pods here (ClusterRole {roles.source}){more}" + (f"; {advice}" if advice else "")


def title(key: Key) -> str:
    """Return kind and name of a Source."""
    return f"{kind_of(key).name} {'/'.join(part for part in key if part)}"


def exclusive(key: Key, source: Raw, shared: str, *, elects: bool) -> Told:
    """Return the condition AccountExclusive of a Source.

    :param shared: which pods run as accounts of the Source; empty if none does
    :param elects: whether the account of a ClusterSource is in a namespace whose pods are elected
    """
    if advice := model.advice(source.get("spec") or {}, namespaced=bool(key[0])):
        return (CONDITION, "False", "DefaultAccount", advice)
    if shared:
        return (CONDITION, "False", "PodsRunAsIt", shared)
    if elects:
        namespace, name = service_account_key(key, source) or ("", "")
        message = (
            f"spec.serviceAccount.namespace: pods of namespace {namespace} are elected, and whoever creates pods there"
            f" may run them as {name}, with rights in all namespaces: name an account of a namespace of its own"
        )
        return (CONDITION, "False", "NamespaceElects", message)
    return (CONDITION, "True", "Exclusive", "no pod runs as the source's account")


def _marks(key: Key) -> Raw:
    return {
        "labels": {names.LABEL_SOURCE: names.source_label(*key)},
        "annotations": {names.ANNOTATION_SOURCE: "/".join(key)},
    }


def _owner(key: Key, source: Raw) -> Raw:
    kind = kind_of(key)
    return {"apiVersion": kind.api_version, "kind": kind.name, "name": key[1], "uid": source["metadata"]["uid"]}


def _delete(kind: Kind, actual: Raw) -> Delete:
    return Delete(kind, _key(actual), actual["metadata"]["uid"])


def _key(obj: Raw) -> Key:
    return (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _subset(actual: Mapping[str, str] | None, wanted: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in (actual or {}).items() if key in wanted}
