"""Copies of PersistentVolumeClaims in targets, without the binding to a volume of the source. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS
from agent.model.copies import Raw, copy_of

_OF_THE_BINDING = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
"""Prefixes of annotations that a cluster's controllers set about the bound volume."""


_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation of claims and volumes that takes precedence over storageClassName."""


class InvalidMapping(ValueError):
    """An invalid mapping of storage classes; the message quotes the invalid part."""


def storage_classes(text: str | None) -> dict[str, str]:
    """Parse a Target's mapping of storage classes, `SOURCE=TARGET,OTHER=`.

    Without a name after the equals sign, the copy gets the target's default class.

    :raises InvalidMapping: if a part has another form
    """
    classes: dict[str, str] = {}
    for part in filter(None, map(str.strip, (text or "").split(","))):
        here, equals, there = part.partition("=")
        if not equals or not here.strip():
            raise InvalidMapping(f"{part!r} is not HERE=THERE, two names of storage classes")
        classes[here.strip()] = there.strip()
    return classes


def storage_class(obj: Mapping[str, Any]) -> str:
    """Return the storage class of a claim or a volume; empty for none."""
    return str(_annotated_class(obj) or obj["spec"].get("storageClassName") or "")


def claim_of(original: Mapping[str, Any], classes: Mapping[str, str], *, cluster_name: str, cluster_uid: str) -> Raw:
    """Return the claim to create in a target: same spec without the volume, storage class mapped."""
    claim = copy_of(PERSISTENT_VOLUME_CLAIMS, original, cluster_name=cluster_name, cluster_uid=cluster_uid)
    metadata = claim["metadata"]
    metadata["annotations"] = {
        key: value for key, value in metadata["annotations"].items() if not key.startswith(_OF_THE_BINDING)
    }
    spec = {field: value for field, value in original["spec"].items() if field != "volumeName"}
    if (annotated := _annotated_class(original)) is not None:
        spec["storageClassName"] = annotated
    if spec.get("storageClassName") in classes:
        spec["storageClassName"] = classes[spec["storageClassName"]]
        if not spec["storageClassName"]:
            del spec["storageClassName"]
    return {**claim, "spec": spec}


def _annotated_class(obj: Mapping[str, Any]) -> str | None:
    found: str | None = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    return found


def growth(original: Mapping[str, Any], copy: Mapping[str, Any]) -> Raw:
    """Return the merge patch that sets a claim's requests to those of its original; {} if they are equal."""
    wanted = (original["spec"].get("resources") or {}).get("requests") or {}
    if wanted == ((copy["spec"].get("resources") or {}).get("requests") or {}):
        return {}
    return {"spec": {"resources": {"requests": wanted}}}
