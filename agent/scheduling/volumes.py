"""Which volumes of a cluster a claim could have, as Kubernetes' own controller and scheduler choose them. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.model.claims import storage_class
from agent.model.quantity import InvalidQuantity, Quantity
from agent.scheduling.pod_terms import selector

_FREE = ("", "Pending", "Available")
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def could_have(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Whether a claim could be bound to a volume that is there.

    One that is kept for a claim is its, whatever its class and labels are. Those of a pool that a program keeps, as the
    static provisioner of local disks does, wait for pods of this cluster and for nobody's data.
    """
    metadata, spec = volume["metadata"], volume["spec"]
    if "deletionTimestamp" in metadata or (volume.get("status") or {}).get("phase", "") not in _FREE:
        return False
    # Quantities last: a cluster may have thousands of free volumes, most of another class.
    if kept_for := spec.get("claimRef"):
        return _is(claim["metadata"], kept_for) and _holds(claim["spec"], spec)
    if _PROVISIONED_BY in (metadata.get("annotations") or {}):
        return False
    if storage_class(claim) != storage_class(volume) or not _holds(claim["spec"], spec):
        return False
    wanted = claim["spec"].get("selector")
    return wanted is None or selector(wanted).matches(metadata.get("labels") or {})


def _holds(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Whether a volume is of the right kind and large enough."""
    asked = (claim.get("resources") or {}).get("requests") or {}
    try:
        large = Quantity.of(asked["storage"]).nano <= Quantity.of(volume["capacity"]["storage"]).nano
    except (InvalidQuantity, KeyError):
        return False
    return (
        large
        and set(claim.get("accessModes") or ()) <= set(volume.get("accessModes") or ())
        and (claim.get("volumeMode") or "Filesystem") == (volume.get("volumeMode") or "Filesystem")
        and (claim.get("volumeAttributesClassName") or "") == (volume.get("volumeAttributesClassName") or "")
    )


def _is(claim: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    same = (claim["namespace"], claim["name"]) == (reference.get("namespace"), reference.get("name"))
    return same and reference.get("uid", "") in ("", claim["uid"])
