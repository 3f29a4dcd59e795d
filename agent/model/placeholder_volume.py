"""Placeholder volumes in the local cluster that represent the volumes of claims in targets (`hack/design`). Pure.

Kubernetes' own controller binds a claim to the volume that names it. No pod can mount such a volume: no node
has its driver, and it has affinity to one virtual node only.
"""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from agent.model import virtualnode
from agent.model.claims import storage_class

Raw = dict[str, Any]

MADE_HERE = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
)
"""Annotations of a claim with which the local cluster's controllers and schedulers announce a volume for it."""
_UNBOUND = ("", "Pending", "Lost")


def name_of(claim: Mapping[str, Any]) -> str:
    """Return the name of a claim's placeholder, unique by the claim's UID."""
    return f"multicluster-{claim['metadata']['uid']}"


def is_needed(claim: Mapping[str, Any]) -> bool:
    """Return whether a claim waits for a volume that no local controller provides, by its annotations."""
    metadata = claim["metadata"]
    annotations = metadata.get("annotations") or {}
    return (
        "deletionTimestamp" not in metadata
        and claim["spec"].get("volumeName", "") in ("", name_of(claim))
        and (claim.get("status") or {}).get("phase", "") in _UNBOUND
        and names.annotation(annotations, names.STAND_IN) != "false"
        and not any(key in annotations for key in MADE_HERE)
    )


def has_volume(there: Mapping[str, Any]) -> bool:
    """Return whether a claim in a target is bound, reports its volume, and is not being deleted with its data."""
    status = there.get("status") or {}
    told = bool((status.get("capacity") or {}).get("storage")) and bool(status.get("accessModes"))
    return status.get("phase") == "Bound" and told and "deletionTimestamp" not in there["metadata"]


def volume_for(claim: Mapping[str, Any], there: Mapping[str, Any], target: tuple[str, str]) -> Raw:
    """Return the placeholder for the volume of a claim.

    :param there: the bound claim in the target
    :param target: namespace (empty for a ClusterTarget) and name
    """
    metadata, status = claim["metadata"], there["status"]
    namespace, name = metadata["namespace"], metadata["name"]
    more = {field: claim["spec"][field] for field in ("volumeAttributesClassName",) if claim["spec"].get(field)}
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.name,
        "metadata": {"name": name_of(claim), "labels": {names.LABEL_STAND_IN: "true"}},
        "spec": {
            "capacity": dict(status["capacity"]),
            "accessModes": list(status["accessModes"]),
            "volumeMode": claim["spec"].get("volumeMode") or "Filesystem",
            "storageClassName": storage_class(claim),
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
                "kind": PERSISTENT_VOLUME_CLAIMS.name,
                "namespace": namespace,
                "name": name,
                "uid": metadata["uid"],
            },
            "csi": {
                "driver": names.STAND_IN_DRIVER,
                "volumeHandle": f"{names.virtual_node(*target)}/{namespace}/{name}",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": _only(target)}]}},
            **more,
        },
    }


def is_stand_in(volume: Mapping[str, Any]) -> bool:
    """Return whether a volume is a placeholder. The label is no proof, since volumes with data may have it."""
    return bool((volume["spec"].get("csi") or {}).get("driver") == names.STAND_IN_DRIVER)


def claim_uid(volume: Mapping[str, Any]) -> str:
    """Return the UID of the volume's claim, empty for none."""
    return str((volume["spec"].get("claimRef") or {}).get("uid") or "")


def claim_key(volume: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name of the volume's claim."""
    reference = volume["spec"].get("claimRef") or {}
    return (str(reference.get("namespace") or ""), str(reference.get("name") or ""))


def is_for(volume: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a placeholder is for the wanted target; its target cannot be changed."""
    return bool(volume["spec"]["csi"].get("volumeHandle") == wanted["spec"]["csi"]["volumeHandle"])


def _only(target: tuple[str, str]) -> list[Raw]:
    labels = virtualnode.identity(*target)
    return [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
