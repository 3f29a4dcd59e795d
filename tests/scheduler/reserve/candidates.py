"""Chaperons in mode `reserve`, as API objects and as the source observes them."""

from dataclasses import replace
from typing import Any

from agent.api import names
from agent.model.podstate import CandidateStatus, observe
from agent.scheduler.reserve.view import ReservePod

EU, US, AP = "eu", "us", "ap"
FULL = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


def chaperon(*conditions: dict[str, str], reserved: bool = False, allowed: bool = False, **annotations: str) -> Any:
    """Return a chaperon as in a target. Keyword arguments are annotations, with underscores for dashes."""
    found = {names.SHORT_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    if reserved:
        found[names.ANNOTATION_IS_RESERVED] = "true"
    if allowed:
        found[names.ANNOTATION_IS_ALLOWED] = "true"
    metadata = {"name": "web-1", "uid": "c1", "resourceVersion": "7", "annotations": found}
    return {"metadata": metadata, "status": {"conditions": list(conditions)}}


def candidate(node_name: str, *conditions: dict[str, str], **changes: Any) -> CandidateStatus:
    """Return a candidate first observed at time 0. Its UID is `c-` and the name of its virtual node."""
    fields = {
        key: changes.pop(key)
        for key in list(changes)
        if key in CandidateStatus.__dataclass_fields__ and key != "allowed"
    }
    found = observe(chaperon(*conditions, **changes), node_name, ready=True, now=0.0)
    return replace(found, **{"uid": f"c-{node_name}"} | fields)


def view(*candidates: CandidateStatus, **changes: Any) -> ReservePod:
    """Return a pod that may run in eu, us and ap, in this order."""
    claim = changes.get("claim", "")
    usual: dict[str, Any] = {
        "claim": "",
        "claim_uid": f"c-{claim}" if claim else "",
        "claim_known": True,
        "claim_ready": True,
        "claim_held": True,
        "claim_state": "",
        "candidates": candidates,
        "order": (EU, US, AP),
    }
    return ReservePod(**usual | changes)
