"""Labels and annotations that identify an object's parent in its source (wire contract, 4.1 and 6; ruling 4). Pure."""

from collections.abc import Mapping
from typing import Any

from agent.api import names


def labels(parent: Mapping[str, Any], *, cluster_name: str, cluster_uid: str) -> dict[str, str]:
    """Return the labels of the child.

    :param parent: metadata of the original
    :param cluster_name: of the source, may be empty
    :param cluster_uid: UID of the source's kube-system namespace
    """
    return {
        names.LABEL_PARENT_UID: parent["uid"],
        names.LABEL_PARENT_CLUSTER_NAME: cluster_name,
        names.LABEL_PARENT_CLUSTER_UID: cluster_uid,
    }


def controller_of(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference of an object's controller, None if it has none."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def annotations(parent: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of the child; they have the parent's name, since a chaperon has another one."""
    return {names.ANNOTATION_PARENT_NAMESPACE: parent["namespace"], names.ANNOTATION_PARENT_NAME: parent["name"]}
