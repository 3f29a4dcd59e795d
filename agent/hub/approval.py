"""Decision about one certificate request of a member's agent. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.api.conditions import is_true, set_condition
from agent.api.names.hub import ACCEPTED, ACCEPTS, AUTOMATICALLY_ACCEPTED, JOINED, token_group
from agent.api.names.ocm import OURS
from agent.hub.identities import Identity

Raw = Mapping[str, Any]

APPROVER = "AutoApprovedByHubCSRApprovingController"
APPROVED = "Auto approving Managed cluster agent certificate after SubjectAccessReview."
_TOKEN_USER = "system:bootstrap:"


@dataclass(frozen=True)
class Waits:
    """Decision not to approve the request now; an event reports the reason."""

    reason: str
    message: str


@dataclass(frozen=True)
class Renews:
    """Decision to approve the renewal by a member's own agent, if a SubjectAccessReview grants it that right."""


@dataclass(frozen=True)
class Accepts:
    """Decision to accept the cluster and approve the request: its bootstrap token accepts this cluster, once."""


def token_of(spec: Raw, cluster: str) -> str:
    """Return the ID of the requester's bootstrap token if that token is for this cluster; else empty."""
    user = str(spec.get("username") or "")
    named = token_group(cluster) in (spec.get("groups") or ())
    return user.removeprefix(_TOKEN_USER) if named and user.startswith(_TOKEN_USER) else ""


def decide(identity: Identity, spec: Raw, cluster: Raw | None, token: Raw | None) -> Waits | Renews | Accepts:
    """Return the decision about a certificate request.

    :param spec: spec of the request
    :param cluster: the ManagedCluster that the identity names; None if it does not exist
    :param token: Secret of the bootstrap token that `token_of` found; None without one
    """
    name = identity.cluster
    if spec.get("username") == identity.user:
        return Renews()
    if cluster is None:
        return Waits("NoManagedCluster", f"there is no ManagedCluster {name}: the agent creates it with its bootstrap")
    metadata = cluster["metadata"]
    conditions: Sequence[Raw] = (cluster.get("status") or {}).get("conditions") or ()
    if metadata.get("deletionTimestamp"):
        return Waits("ClusterIsDeleted", f"ManagedCluster {name} is being deleted: the request waits until it is gone")
    if OURS in (metadata.get("labels") or {}):
        return Waits("NameTaken", f"ManagedCluster {name} belongs to a Target: let the cluster join by another name")
    if _is_accepted_by(token, cluster):
        return Accepts()
    how = f"flotilla hub accept {name} --key {identity.key}"
    if is_true(conditions, ACCEPTED) and is_true(conditions, JOINED):
        return Waits(
            "NameTaken",
            f"{name} has joined already, and {spec.get('username')} asks for another certificate: if its agent has lost"
            f" the first, {how}; if another cluster replaces it, add --replace; else flotilla hub reject {name}",
        )
    return Waits("WaitsForAcceptance", f"{identity.user} waits until a person accepts it: {how}")


def decided(request: Raw, type: str, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Return the request with the condition Approved or Denied; all its conditions get a lastUpdateTime."""
    given = (request.get("status") or {}).get("conditions")
    conditions = set_condition(given, type, "True", reason, message, now)
    return {
        **request,
        "status": {"conditions": [{"lastUpdateTime": each["lastTransitionTime"], **each} for each in conditions]},
    }


def _is_accepted_by(token: Raw | None, cluster: Raw) -> bool:
    """Return whether a token accepts a cluster that has never been accepted or denied."""
    if token is None:
        return False
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    accepts = (token["metadata"].get("annotations") or {}).get(ACCEPTS)
    used = AUTOMATICALLY_ACCEPTED in (metadata.get("annotations") or {})
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    known = any(each.get("type") == ACCEPTED for each in conditions)
    return accepts == metadata["name"] and not (used or known or spec.get("hubAcceptsClient"))
