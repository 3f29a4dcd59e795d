"""How an object says whose child it is: in a target (wire contract, 4.1 and 6; ruling 4), and in its cluster. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.api import names


def labels(parent: Mapping[str, Any], *, cluster_name: str, cluster_uid: str) -> dict[str, str]:
    """Labels of the child.

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
    """The owner reference that controls an object, None where nothing does."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def annotations(parent: Mapping[str, Any]) -> dict[str, str]:
    """Annotations of the child, which has another name where it is a chaperon."""
    return {names.ANNOTATION_PARENT_NAMESPACE: parent["namespace"], names.ANNOTATION_PARENT_NAME: parent["name"]}
