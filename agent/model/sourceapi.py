"""Delegates that talk to the Kubernetes API of their source, not of the cluster that they run in. Pure.

Where a proxy pod has the token of its service account, its delegate has a Secret with a token of the same account,
bound to the proxy pod, and the environment variables by which clients find their API server lead to the source.
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
    """Whether a pod wants it."""
    return names.annotation(annotations, names.SOURCE_API) == "true"


def permits(accounts: str | None, account: str, *, otherwise: bool) -> bool:
    """Whether tokens of a service account may go to targets, as the annotation of its namespace says.

    :param otherwise: whether they may where there is no annotation
    """
    if accounts is None:
        return otherwise
    return bool({"*", account} & {name.strip() for name in accounts.split(",")})


def split(address: str) -> tuple[str, str] | None:
    """Host and port of HOST:PORT, where an IPv6 address is in brackets; None for anything else."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    return (host, port) if colon and host and port.isdecimal() and 0 < int(port) < 65536 else None


def secret_name(pod: Mapping[str, Any]) -> str:
    """The Secret of a pod's delegate, by the pod's metadata."""
    return f"{names.chaperon(pod['name'], pod['uid'])}-source-api"


def pointed(spec: Raw, original: Mapping[str, Any], secret: str, address: str) -> Raw:
    """The delegate's spec, pointed at `address`; `original` is the pod's own spec, in which the tokens still are."""
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
                    # What a user sets comes last, and wins.
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
    """Mounts of a container without the one where clients look for their token."""
    return [
        each for each in container.get("volumeMounts") or () if each.get("mountPath") != names.SERVICE_ACCOUNT_MOUNT
    ]


def token_request(pod: Mapping[str, Any], account: str, seconds: int) -> Raw:
    """What to ask for: a token that is void once the pod is gone."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    spec = {"expirationSeconds": seconds, "boundObjectRef": bound}
    metadata = {"name": account, "namespace": pod["namespace"]}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata, "spec": spec}


def secret(
    pod: Mapping[str, Any], token: str, expires: str, authority: str, *, cluster_name: str, cluster_uid: str
) -> Raw:
    """The Secret in a target, with the files of a service account's volume.

    Not the label of copies says whose it is: there is no original, and those go with theirs.
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
    """In how many seconds a token of so many is to be renewed: when a fifth is left, as kubelets do. 0 for now."""
    try:
        expires = datetime.fromisoformat(annotations.get(names.ANNOTATION_TOKEN_EXPIRES, ""))
        return max(0.0, (expires - now).total_seconds() - seconds / 5)
    except (ValueError, TypeError):
        return 0.0
