"""Volumes with the token of a pod's service account, from ServiceAccount admission or from users. Pure.

Admission adds a volume `kube-api-access-XXXXX` to pods, and mounts it in each container that mounts nothing at the
usual path (kubernetes: plugin/pkg/admission/serviceaccount). The target's admission does the same, so the source's
volume is not copied. Volumes that users define are copied, whatever their content.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agent.api.names import SERVICE_ACCOUNT_MOUNT

PREFIX = "kube-api-access-"


def is_of_admission(name: str, *, has_token: bool) -> bool:
    """Return True for a volume that ServiceAccount admission added.

    :param has_token: whether the volume projects a token for the API server
    """
    return has_token and name.startswith(PREFIX)


def admission_volumes(spec: Mapping[str, Any]) -> set[str]:
    """Return the names of the volumes in a pod's spec that ServiceAccount admission has added."""
    return {name for name in token_volumes(spec) if is_of_admission(name, has_token=True)}


def token_volumes(spec: Mapping[str, Any]) -> set[str]:
    """Return the names of the volumes in a pod's spec that project a token for the API server."""
    return {volume["name"] for volume in spec.get("volumes") or () if _has_token(volume)}


def mounts_token(container: Mapping[str, Any], volumes: Iterable[str]) -> bool:
    """Return True if a container mounts one of these volumes at the default path of the token."""
    return any(
        mount.get("mountPath") == SERVICE_ACCOUNT_MOUNT and mount.get("name") in volumes
        for mount in container.get("volumeMounts") or ()
    )


def _has_token(volume: Mapping[str, Any]) -> bool:
    tokens = (each.get("serviceAccountToken") for each in (volume.get("projected") or {}).get("sources") or ())
    return any(token and not token.get("audience") for token in tokens)
