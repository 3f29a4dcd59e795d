"""Objects that join two clusters, and their difference from existing ones. Pure."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.api import names
from agent.api.kinds import ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS, SOURCE_KINDS, TARGET_KINDS, Kind
from agent.api.roles import rules, token_renewal
from agent.model.diff import merge_patch

Raw = dict[str, Any]

KUBECONFIG_KEY = "config"


@dataclass(frozen=True)
class Names:
    """Names and namespaces of the objects in source and target."""

    source: str
    """Name of the Source and of its service account, in the target."""
    target: str
    """Name of the Target and of its Secret, in the source."""
    cluster_scoped: bool
    source_namespace: str
    """Namespace in the source: of Target and Secret, or only of the Secret."""
    target_namespace: str
    """Namespace in the target: of Source and service account, or only of the latter."""

    @property
    def source_kind(self) -> Kind:
        """The kind of source objects: Source, or ClusterSource for all namespaces."""
        return SOURCE_KINDS.cluster if self.cluster_scoped else SOURCE_KINDS.namespaced

    @property
    def target_kind(self) -> Kind:
        """The kind of target objects: Target, or ClusterTarget for all namespaces."""
        return TARGET_KINDS.cluster if self.cluster_scoped else TARGET_KINDS.namespaced

    @property
    def source_place(self) -> str | None:
        """Namespace of the Source."""
        return None if self.cluster_scoped else self.target_namespace

    @property
    def target_place(self) -> str | None:
        """Namespace of the Target."""
        return None if self.cluster_scoped else self.source_namespace


def source(found: Names, source_uid: str, allow: Sequence[str] | None = None) -> Raw:
    """Return the Source for the target. It grants the source access and the features `allow` (None: unchanged).

    :param source_uid: UID of the source's kube-system namespace; empty if unknown
    """
    spec: Raw = {"serviceAccountName": found.source}
    if found.cluster_scoped:
        spec = {"serviceAccount": {"name": found.source, "namespace": found.target_namespace}}
    if allow is not None:
        spec["allow"] = list(allow)
    return _object(found.source_kind, found.source, found.source_place, source_uid) | {"spec": spec}


def renewal(found: Names, owner: Raw) -> list[tuple[Kind, Raw]]:
    """Return role and binding in the target with which the service account may renew its own token only.

    The Source `owner` owns both.
    """
    name = names.source_renewal(found.source)
    kind = found.source_kind
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    metadata = {"name": name, "namespace": found.target_namespace, "ownerReferences": [reference]}
    subject = {"kind": SERVICE_ACCOUNTS.name, "name": found.source, "namespace": found.target_namespace}
    return [
        (ROLES, _head(ROLES) | {"metadata": metadata, "rules": rules([token_renewal(found.source)])}),
        (
            ROLE_BINDINGS,
            _head(ROLE_BINDINGS)
            | {
                "metadata": metadata,
                "roleRef": {"apiGroup": ROLES.group, "kind": ROLES.name, "name": name},
                "subjects": [subject],
            },
        ),
    ]


def secret(name: str, namespace: str, kubeconfig: Raw, target_uid: str) -> Raw:
    """Return the Secret for the source: the target's kubeconfig under the key that Targets read by default."""
    made = _object(SECRETS, name, namespace, target_uid)
    text = json.dumps(kubeconfig, indent=1) + "\n"
    return made | {"type": "Opaque", "data": {KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()}}


def target(found: Names, target_uid: str) -> Raw:
    """Return the Target for the source. None marks fields that an older object may have and that are removed."""
    reference: Raw = {"name": found.target, "key": None, "context": None}
    if found.cluster_scoped:
        reference["namespace"] = found.source_namespace
    made = _object(found.target_kind, found.target, found.target_place, target_uid)
    return made | {"spec": {"self": None, "kubeconfigSecret": reference}}


def kubeconfig_of(found: Raw) -> bytes:
    """Return the kubeconfig in a Secret, empty without one."""
    return base64.b64decode((found.get("data") or {}).get(KUBECONFIG_KEY) or "")


def cluster_uid(found: Raw) -> str:
    """Return the UID of the cluster that an object represents, empty if not recorded."""
    return str((found["metadata"].get("annotations") or {}).get(names.ANNOTATION_CLUSTER_UID) or "")


def vouches(target: Raw | None, uid: str) -> bool:
    """Return True if a Target confirms that it represents this cluster now, in its status or an annotation."""
    if target is None or not uid:
        return False
    accepted = names.annotation(target["metadata"].get("annotations"), names.ACCEPT_CLUSTER)
    return uid in ((target.get("status") or {}).get("clusterUID"), accepted)


def change(actual: Raw, wanted: Raw) -> Raw:
    """Return the merge patch that sets the wanted fields; fields that `wanted` does not mention stay."""
    return merge_patch(_mentioned(actual, wanted), wanted)


def without_none(value: Any) -> Any:
    """Return an object without its None values, as needed for its creation."""
    if not isinstance(value, dict):
        return value
    return {key: without_none(inner) for key, inner in value.items() if inner is not None}


def _mentioned(actual: Raw, wanted: Raw) -> Raw:
    return {
        key: _mentioned(value, wanted[key]) if isinstance(value, dict) and isinstance(wanted[key], dict) else value
        for key, value in actual.items()
        if key in wanted
    }


def _object(kind: Kind, name: str, namespace: str | None, cluster: str) -> Raw:
    metadata: Raw = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if cluster:
        metadata["annotations"] = {names.ANNOTATION_CLUSTER_UID: cluster}
    return _head(kind) | {"metadata": metadata}


def _head(kind: Kind) -> Raw:
    return {"apiVersion": kind.api_version, "kind": kind.name}
