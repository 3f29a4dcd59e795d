"""Status of a Target about the namespaces that it serves. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api.conditions import Status
from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, Kind

CONDITION = "InventoryPublished"
FIELDS: Mapping[Kind, str] = {
    SERVICE_ACCOUNTS: "serviceAccounts",
    PERSISTENT_VOLUME_CLAIMS: "persistentVolumeClaims",
}

NAMES_LIMIT = 5_000
"""Names in the status of one Target, a few hundred KB at most: etcd takes 1.5 MiB per object."""


@dataclass(frozen=True)
class TargetContents:
    """Contents of one target; each kind is in `found` (namespace and name of each object) or in `forbidden`."""

    namespaces: Sequence[str]
    found: Mapping[Kind, Iterable[tuple[str, str]]]
    forbidden: Sequence[Kind] = ()
    followed: AbstractSet[str] = frozenset()
    """Namespaces whose service accounts are copied to the target: none of them can be missing."""


class Inventory(msgspec.Struct, frozen=True):
    """The status to write: `namespaces`, and the condition."""

    namespaces: list[dict[str, Any]]
    status: Status
    reason: str
    message: str


def decide(view: TargetContents) -> Inventory:
    """Return the status, sorted so that an unchanged inventory causes no write."""
    by_namespace: dict[str, dict[str, Any]] = {name: {"name": name} for name in sorted(view.namespaces)}
    count = 0
    for kind, keys in view.found.items():
        for entry in by_namespace.values():
            if not _is_brought(kind, entry["name"], view):
                entry[FIELDS[kind]] = []
        for namespace, name in sorted(keys):
            if namespace in by_namespace and not _is_brought(kind, namespace, view):
                by_namespace[namespace][FIELDS[kind]].append(name)
                count += 1
    if count > NAMES_LIMIT:
        message = f"{count} names are too many to publish ({NAMES_LIMIT}): no warnings about what the target misses"
        return Inventory([], "False", "TooMany", message)
    namespaces = list(by_namespace.values()) if view.found else []
    if view.forbidden:
        kinds = " and ".join(kind.plural for kind in view.forbidden)
        message = (
            f"no warnings about missing {kinds}: the target's Source may not list and watch them; "
            "add both verbs to its role"
        )
        return Inventory(namespaces, "False", "Forbidden", message)
    return Inventory(namespaces, "True", "Published", "pods that need what the target does not have bring a warning")


def _is_brought(kind: Kind, namespace: str, view: TargetContents) -> bool:
    return kind == SERVICE_ACCOUNTS and namespace in view.followed
