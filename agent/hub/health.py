"""Health of a member by its lease: conditions, taints, and the time until the member is lost. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.api.conditions import Status, find_condition, set_condition, timestamp
from agent.api.names import ocm
from agent.api.names.hub import ACCEPTED, CLOCK_SYNCED, SKIP_CLOCK_CHECK
from agent.base.clock import parse

Raw = Mapping[str, Any]

LOST: tuple[Status, str, str] = (
    "Unknown",
    "ManagedClusterLeaseUpdateStopped",
    "Registration agent stopped updating its lease.",
)
BACK: tuple[Status, str, str] = ("True", "ManagedClusterAvailable", "Managed cluster is available")
SYNCED: tuple[Status, str, str] = (
    "True",
    "ManagedClusterClockSynced",
    "The clock of the managed cluster is synced with the hub.",
)
OUT_OF_SYNC: tuple[Status, str, str] = (
    "False",
    "ManagedClusterClockOutOfSync",
    "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
)
_MISSED = 5
"""Number of missed renewals after which a member is lost."""
_DEFAULT_SECONDS = 60


@dataclass(frozen=True)
class Lease:
    """The lease of a member."""

    renewed: datetime | None
    """Time of the last renewal by the agent's clock; None if the lease has no readable time."""
    silent: float
    """Seconds since this renewal was received, by the hub's clock."""
    duration: int = 0
    """Seconds between renewals that the agent announces in the lease; 0 if it announces none."""
    is_new: bool = False
    """Whether the renewal was received since the last check: it proves that the agent is back."""


def seconds_of(cluster: Raw, lease: Lease | None) -> int:
    """Return the seconds between renewals: those of the ManagedCluster, or fewer that the agent announces."""
    asked = (cluster.get("spec") or {}).get("leaseDurationSeconds") or _DEFAULT_SECONDS
    return min(asked, lease.duration if lease is not None and lease.duration else asked)


def left(cluster: Raw, lease: Lease) -> float:
    """Return the seconds until the member is lost; 0 or negative if it is lost."""
    return _MISSED * seconds_of(cluster, lease) - lease.silent


def conditions(cluster: Raw, lease: Lease | None, now: datetime) -> list[dict[str, Any]]:
    """Return the new conditions of a ManagedCluster for which `is_known` is True."""
    found: Sequence[dict[str, Any]] = (cluster.get("status") or {}).get("conditions") or []
    available = find_condition(found, ocm.CONDITION_AVAILABLE) or {}
    lost = bool(cluster["metadata"].get("deletionTimestamp")) if lease is None else left(cluster, lease) <= 0
    if lost and available.get("status") != "Unknown":
        found = set_condition(found, ocm.CONDITION_AVAILABLE, *LOST, now)
    elif lease is not None and lease.is_new and not lost and available.get("reason") == LOST[1]:
        found = set_condition(found, ocm.CONDITION_AVAILABLE, *BACK, now)
    if lease is not None and (lease.is_new or find_condition(found, CLOCK_SYNCED) is None):
        found = set_condition(found, CLOCK_SYNCED, *_clock(cluster, lease, now), now)
    return list(found)


def is_known(cluster: Raw) -> bool:
    """Return whether a cluster has ever been accepted or denied: it has the condition HubAcceptedManagedCluster."""
    return find_condition((cluster.get("status") or {}).get("conditions"), ACCEPTED) is not None


def taints(cluster: Raw, now: datetime) -> list[dict[str, Any]]:
    """Return the new taints of a cluster: the hub sets those about availability, and adds missing times to others."""
    available = find_condition((cluster.get("status") or {}).get("conditions"), ocm.CONDITION_AVAILABLE) or {}
    status = available.get("status") or "Unknown"
    wanted = {"Unknown": ocm.TAINT_UNREACHABLE, "False": ocm.TAINT_UNAVAILABLE}.get(status)
    ours = (ocm.TAINT_UNREACHABLE, ocm.TAINT_UNAVAILABLE)
    moment = timestamp(now)
    found = (cluster.get("spec") or {}).get("taints") or []
    kept = [each for each in found if each.get("key") not in ours or each.get("key") == wanted]
    result = [each if each.get("timeAdded") else {**each, "timeAdded": moment} for each in kept]
    if wanted and not any(each.get("key") == wanted for each in kept):
        result.append({"key": wanted, "effect": "NoSelect", "timeAdded": moment})
    return result


def read(lease: Raw, silent: float, *, is_new: bool) -> Lease:
    """Return the contents of a Lease object. A lease without a readable renewal time expires, too."""
    spec = lease.get("spec") or {}
    try:
        renewed = parse(str(spec.get("renewTime")))
    except ValueError:
        renewed = None
    return Lease(renewed, silent, max(0, spec.get("leaseDurationSeconds") or 0), is_new)


def _clock(cluster: Raw, lease: Lease, now: datetime) -> tuple[Status, str, str]:
    if (cluster["metadata"].get("annotations") or {}).get(SKIP_CLOCK_CHECK) == "true":
        return SYNCED
    if lease.renewed is None:
        return OUT_OF_SYNC
    # A renewal that was received a while ago was written a while ago.
    distance = abs((now - lease.renewed).total_seconds() - lease.silent)
    return SYNCED if distance < _MISSED * seconds_of(cluster, lease) else OUT_OF_SYNC
