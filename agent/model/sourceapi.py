"""Delegates that use the API server of their source instead of their own cluster's. Pure.

If the proxy pod has the token of its service account, its delegate has a Secret with a token of the same
account, bound to the proxy pod. Clients' environment variables for the API server have the source's address.
"""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agent.api import names
from agent.model import accounttoken, owner_labels

Raw = dict[str, Any]

VOLUME = "multicluster-source-api"
_LISTS = ("initContainers", "containers")


def asks(annotations: Mapping[str, str] | None) -> bool:
    """Return whether a pod requests it."""
    return names.annotation(annotations, names.SOURCE_API) == "true"


def permits(accounts: str | None, account: str, *, otherwise: bool) -> bool:
    """Return whether tokens of a service account may be sent to targets, by its namespace's annotation.

    :param otherwise: the result without an annotation
    """
    if accounts is None:
        return otherwise
    return bool({"*", account} & {name.strip() for name in accounts.split(",")})


def split(address: str) -> tuple[str, str] | None:
    """Return host and port of HOST:PORT, with an IPv6 address in brackets; None for anything else."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    return (host, port) if colon and host and port.isdecimal() and 0 < int(port) < 65536 else None


def secret_name(pod: Mapping[str, Any]) -> str:
    """Return the name of the Secret of a pod's delegate, from the pod's metadata."""
    return f"{names.chaperon(pod['name'], pod['uid'])}-source-api"


def pointed(spec: Raw, original: Mapping[str, Any], secret: str, address: str) -> Raw:
    """Return the delegate's spec, configured for `address`; `original` is the pod's own spec, with token volumes."""
    host, port = split(address) or ("", "")
    env = [{"name": "KUBERNETES_SERVICE_HOST", "value": host}, {"name": "KUBERNETES_SERVICE_PORT", "value": port}]
    mount = {"name": VOLUME, "mountPath": names.SERVICE_ACCOUNT_MOUNT, "readOnly": True}
    result = {**spec, "automountServiceAccountToken": False}
    tokens = accounttoken.token_volumes(original)
    for field in _LISTS:
        if spec.get(field):
            result[field] = [
                {
                    **container,
                    # A user's variables are last, and take precedence.
                    "env": [*env, *(container.get("env") or ())],
                    "volumeMounts": [*_other_mounts(container), mount],
                }
                if accounttoken.mounts_token(before, tokens)
                else container
                for container, before in zip(spec[field], original[field], strict=True)
            ]
    result["volumes"] = [*(spec.get("volumes") or ()), {"name": VOLUME, "secret": {"secretName": secret}}]
    return result


def _other_mounts(container: Mapping[str, Any]) -> list[Raw]:
    """Return a container's mounts without the default one of a service account's token."""
    return [
        each for each in container.get("volumeMounts") or () if each.get("mountPath") != names.SERVICE_ACCOUNT_MOUNT
    ]


def token_request(pod: Mapping[str, Any], account: str, seconds: int) -> Raw:
    """Return the request of a token that becomes invalid when the pod is deleted."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    spec = {"expirationSeconds": seconds, "boundObjectRef": bound}
    metadata = {"name": account, "namespace": pod["namespace"]}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata, "spec": spec}


def secret(
    pod: Mapping[str, Any], token: str, expires: str, authority: str, *, cluster_name: str, cluster_uid: str
) -> Raw:
    """Return the Secret in a target, with the files of a service account's volume.

    Its source is in another label than for copies: it has no original, and copies without one are deleted.
    """
    found = owner_labels.labels(pod, cluster_name=cluster_name, cluster_uid=cluster_uid)
    found[names.LABEL_TOKEN_OF] = found.pop(names.LABEL_PARENT_CLUSTER_UID)
    files = {"token": token, "ca.crt": authority, "namespace": pod["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(pod),
            "namespace": pod["namespace"],
            "labels": found,
            "annotations": {**owner_labels.annotations(pod), names.ANNOTATION_TOKEN_EXPIRES: expires},
        },
        "data": {name: base64.b64encode(content.encode()).decode() for name, content in files.items()},
    }


def renew_in(annotations: Mapping[str, str], seconds: float, now: datetime) -> float:
    """Return seconds until a token with this lifetime is renewed: when a fifth is left, as kubelets do. 0 for now."""
    try:
        expires = datetime.fromisoformat(annotations.get(names.ANNOTATION_TOKEN_EXPIRES, ""))
        return max(0.0, (expires - now).total_seconds() - seconds / 5)
    except (ValueError, TypeError):
        return 0.0
