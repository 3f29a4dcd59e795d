"""Order of deletion of a deleted member's objects, and the condition about the remaining ones. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.api.conditions import Status
from agent.api.kinds import MANAGED_CLUSTER_ADDONS, MANIFEST_WORKS, Kind
from agent.api.names.hub import ABANDON, CLEANUP_PRIORITY

Raw = dict[str, Any]

ORDER = (MANAGED_CLUSTER_ADDONS, MANIFEST_WORKS)
"""Kinds to delete with a member, in this order: a kind only after no object of the previous kind remains."""
DONE: tuple[Status, str, str] = ("True", "NoResource", "No cleaned resource in cluster ns.")
_HIGHEST = 100


@dataclass(frozen=True)
class Remaining:
    """Metadata of the objects of one kind in a member's namespace, at least one."""

    kind: Kind
    objects: Sequence[Raw]

    def next(self) -> list[Raw]:
        """Return the objects to delete now: those of the lowest priority that are not being deleted already."""
        lowest = min(map(priority, self.objects))
        return [each for each in self.objects if priority(each) == lowest and not _is_deleted(each)]

    def held(self) -> list[Raw]:
        """Return the objects that are being deleted and wait for finalizers."""
        return [each for each in self.objects if _is_deleted(each) and each["metadata"].get("finalizers")]

    def condition(self, *, abandoned: bool) -> tuple[Status, str, str]:
        """Return status, reason and message of the condition Deleting."""
        held = self.held()
        text = (
            f"The resource {self.kind.plural} is remaning, the remaining count is {len(self.objects)},"
            f" the finalizer pending count is {len(held)}"
        )
        if held:
            first = held[0]["metadata"]
            text += f": {first['name']} waits for {', '.join(first['finalizers'])}"
            if not abandoned:
                text += f"; if the cluster will not come back, annotate the ManagedCluster {ABANDON}=true"
        return "False", "ResourceRemaining", text


def priority(obj: Raw) -> int:
    """Return the cleanup priority of an object, 0 to 100; 0 if its annotation is missing or invalid."""
    text = str((obj["metadata"].get("annotations") or {}).get(CLEANUP_PRIORITY, ""))
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 0
    return value if value <= _HIGHEST else 0


def _is_deleted(obj: Raw) -> bool:
    return "deletionTimestamp" in obj["metadata"]
