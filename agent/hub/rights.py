"""Roles and bindings of one member, by its state. The binding for works stays while works remain. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.api.hubroles import bound, group, member_rules, user
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, Kind
from agent.api.names.hub import REGISTRATION_ROLE, WORK_ROLE, member_groups, member_role
from agent.api.names.ocm import LABEL_CLUSTER_NAME
from agent.api.names.works import WORK_FINALIZER

Raw = dict[str, Any]
Place = tuple[Kind, str, str]
"""Kind, namespace and name of an object."""
State = Literal["accepted", "denied", "gone"]


@dataclass(frozen=True)
class Step:
    """One write: `create` with a manifest, `patch` with a merge patch, or `delete`."""

    verb: Literal["create", "patch", "delete"]
    place: Place
    body: Raw | None = None
    uid: str = ""


def places(cluster: str) -> tuple[Place, ...]:
    """Return kind, namespace and name of each object of a member, in the order of creation."""
    role = member_role(cluster)
    return (
        (CLUSTER_ROLES, "", role),
        (CLUSTER_ROLE_BINDINGS, "", role),
        (ROLE_BINDINGS, cluster, f"{role}:registration"),
        (ROLE_BINDINGS, cluster, f"{role}:work"),
    )


def works_binding(cluster: str) -> Place:
    """Return the RoleBinding that grants the agent access to its works."""
    return places(cluster)[3]


def wanted(cluster: str, state: State, only: str = "") -> dict[Place, Raw]:
    """Return the roles and bindings that a member should have.

    :param only: the only user with the member's rights; empty for the member's groups
    """
    if state == "gone":
        return {}
    subjects = [user(only)] if only else [group(each) for each in member_groups(cluster)]
    role, binding, registration, work = places(cluster)
    found = {
        role: {"rules": member_rules(cluster, accepted=state == "accepted")},
        binding: bound(CLUSTER_ROLES, role[2], subjects),
    }
    if state == "accepted":
        found[registration] = bound(CLUSTER_ROLES, REGISTRATION_ROLE, subjects)
        found[work] = bound(CLUSTER_ROLES, WORK_ROLE, subjects)
    return {place: _manifest(place, cluster, fields) for place, fields in found.items()}


def steps(cluster: str, objects: Mapping[Place, Raw], existing: Mapping[Place, Raw], *, works: bool) -> list[Step]:
    """Return the writes that turn the existing objects into the wanted ones, `objects`.

    :param works: whether works remain: a deleted binding for them then keeps its finalizer
    """
    found = []
    for place in places(cluster):
        found += _steps(place, objects.get(place), existing.get(place), works=works)
    return found


def _steps(place: Place, want: Raw | None, have: Raw | None, *, works: bool) -> list[Step]:
    if have is None:
        return [Step("create", place, want)] if want is not None else []
    uid = have["metadata"]["uid"]
    if have["metadata"].get("deletionTimestamp"):
        # An object of this name can be created only after this one has been removed.
        held = have["metadata"].get("finalizers") or []
        if WORK_FINALIZER not in held or (works and want is None):
            return []
        rest = [each for each in held if each != WORK_FINALIZER]
        return [Step("patch", place, {"metadata": {"uid": uid, "finalizers": rest or None}})]
    if want is None:
        return [Step("delete", place, uid=uid)]
    if have.get("roleRef") != want.get("roleRef"):
        # A roleRef cannot be changed.
        return [Step("delete", place, uid=uid)]
    patch = {field: want[field] for field in ("rules", "subjects") if field in want and have.get(field) != want[field]}
    labels, finalizers = want["metadata"]["labels"], want["metadata"].get("finalizers") or []
    metadata: Raw = {}
    if (have["metadata"].get("labels") or {}).get(LABEL_CLUSTER_NAME) != labels[LABEL_CLUSTER_NAME]:
        metadata["labels"] = labels
    if lacking := [each for each in finalizers if each not in (have["metadata"].get("finalizers") or [])]:
        metadata["finalizers"] = [*(have["metadata"].get("finalizers") or []), *lacking]
    body = patch | ({"metadata": metadata} if metadata else {})
    return [Step("patch", place, body)] if body else []


def _manifest(place: Place, cluster: str, fields: Raw) -> Raw:
    kind, namespace, name = place
    metadata: Raw = {"name": name, "labels": {LABEL_CLUSTER_NAME: cluster}}
    if namespace:
        metadata["namespace"] = namespace
    if place == works_binding(cluster):
        metadata["finalizers"] = [WORK_FINALIZER]
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **fields}
