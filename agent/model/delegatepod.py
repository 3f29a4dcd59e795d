"""Delegates: proxy pod -> PodChaperon in the target -> the pod that runs there (wire contract, 4.1).

The results share unchanged parts with what was given: treat both as read-only.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.api.names import fencing, givingup
from agent.model import admitted, baseline, downward, owner_labels, priorityclass, sourceapi
from agent.model.errors import InvalidPod
from agent.model.manifest import source_pod
from agent.model.pattern import InvalidPattern, compile_pattern
from agent.model.relabel import constraints as relabel_constraints
from agent.model.relabel import new_key, relabel

__all__ = ["chaperon", "delegate", "delegate_container", "relabel"]

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_OUR_SCHEDULERS = frozenset((names.SCHEDULER_PROXY, names.SCHEDULER_CANDIDATE))
_OF_CHAPERON = frozenset(
    (
        names.ANNOTATION_CREATED_BY,
        names.ANNOTATION_IS_RESERVED,
        names.ANNOTATION_IS_ALLOWED,
        names.ANNOTATION_POD_MISSING_SINCE,
        names.ANNOTATION_POD_MADE,
        names.ANNOTATION_POD_ENDING,
        givingup.ANNOTATION_GIVE_UP,
        names.ANNOTATION_ATTEMPTS,
        names.ANNOTATION_LIVE_CHANGES,
        names.ANNOTATION_RESTARTS,
        fencing.ANNOTATION_LEASE,
        fencing.ANNOTATION_KEPT_BY,
        fencing.ANNOTATION_FENCED,
        priorityclass.KEY,
    )
)


def chaperon(
    proxy: dict[str, Any],
    *,
    cluster_name: str,
    cluster_uid: str,
    reserve: bool = False,
    source_api: str = "",
    injected: bool = False,
) -> dict[str, Any]:
    """The PodChaperon to create in a target for a proxy pod; the same at every attempt.

    :param cluster_name: of the source, may be empty
    :param cluster_uid: UID of the source's kube-system namespace (ruling 4)
    :param source_api: HOST:PORT of the source's API for a pod that asks for it, empty if there is none
    :param reserve: let the candidate scheduler place the delegate, rather than the scheduler that the pod names
    :param injected: the pod's namespace asks for containers that other webhooks added to go along
    :raises InvalidPod: if the manifest or an annotation of the proxy pod is unusable
    """
    metadata, source = proxy["metadata"], source_pod(proxy)
    annotations: dict[str, str] = metadata.get("annotations") or {}
    asked = names.annotation(annotations, names.INJECTED)
    travels = admitted.spec(proxy, source, injected=injected if asked is None else asked == names.INJECTED_FOLLOW)
    labels, regexp = _labels(proxy, source), _regexp(annotations)
    spec = _spec(proxy, travels, labels, regexp, reserve=reserve)
    if source_api and sourceapi.asks(annotations):
        spec = sourceapi.pointed(spec, travels, sourceapi.secret_name(metadata), source_api)
    return {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {
            "name": names.chaperon(metadata["name"], metadata["uid"]),
            "namespace": metadata["namespace"],
            "labels": {
                **relabel(labels, regexp),
                **owner_labels.labels(metadata, cluster_name=cluster_name, cluster_uid=cluster_uid),
            },
            "annotations": _annotations(proxy, source),
        },
        "spec": spec,
    }


def _annotations(proxy: dict[str, Any], source: dict[str, Any]) -> dict[str, str]:
    metadata = proxy["metadata"]
    return {
        **baseline.annotations(proxy),
        **owner_labels.annotations(metadata),
        **baseline.note(proxy, source),
        **_creator(metadata),
        **priorityclass.demand(metadata.get("annotations") or {}),
    }


def delegate(chaperon: dict[str, Any]) -> dict[str, Any]:
    """The pod that the target makes of a PodChaperon: same name, labels, annotations and spec, controlled by it.

    The annotations by which schedulers and controllers talk over the chaperon stay on the chaperon.
    """
    metadata = chaperon["metadata"]
    annotations = metadata.get("annotations") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {key: value for key, value in annotations.items() if key not in _OF_CHAPERON},
            "ownerReferences": [
                {
                    "apiVersion": CHAPERONS.api_version,
                    "kind": CHAPERONS.name,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": chaperon["spec"],
    }


def delegate_container(container: dict[str, Any], proxy: dict[str, Any]) -> dict[str, Any]:
    """A container of the proxy pod as its delegate has it."""
    return _container(container, proxy, set())


def _creator(metadata: Mapping[str, Any]) -> dict[str, str]:
    creator = (metadata.get("annotations") or {}).get(names.ANNOTATION_CREATED_BY)
    return {names.ANNOTATION_CREATED_BY: creator} if creator else {}


def _regexp(annotations: dict[str, str]) -> str | None:
    regexp = names.annotation(annotations, names.NO_PREFIX_REGEXP)
    if not regexp:
        return None
    try:
        compile_pattern(regexp)
    except InvalidPattern as error:
        raise InvalidPod(f"metadata.annotations[{names.PREFIX}{names.NO_PREFIX_REGEXP}]", str(error)) from error
    return regexp


def _labels(proxy: dict[str, Any], source: dict[str, Any]) -> dict[str, str]:
    """Labels of the pod, without those that its virtual node gave it."""
    found, sent = baseline.labels(proxy), baseline.labels(source)
    of_node = names.LABELS_OF_NODE - sent.keys() if proxy["spec"].get("nodeName") else ()
    return {key: value for key, value in found.items() if key not in of_node}


def _spec(
    proxy: dict[str, Any], travels: dict[str, Any], labels: dict[str, str], regexp: str | None, *, reserve: bool
) -> dict[str, Any]:
    """What travels of a pod's spec, as it is in the target."""
    spec = {**travels, **relabel_constraints(travels, labels, regexp)}
    if reserve:
        spec["schedulerName"] = names.SCHEDULER_CANDIDATE
    elif spec.get("schedulerName") in _OUR_SCHEDULERS:
        # A pod that names ours itself would be a proxy pod, or wait for a permission, in the target.
        del spec["schedulerName"]
    hostname = _hostname(proxy["metadata"]["name"])
    if hostname and not spec.get("hostname") and not spec.get("hostNetwork"):
        spec["hostname"] = hostname
    _rewrite_containers(spec, proxy)
    if spec.get("volumes"):
        rewritten = partial(_label_there, labels, regexp)
        spec["volumes"] = [downward.redirect_volume(volume, rewritten) for volume in spec["volumes"]]
    return spec


def _label_there(labels: Mapping[str, str], regexp: str | None, key: str) -> str:
    """The key under which a delegate has a label that its files name; those of its node it gets as any pod does."""
    return key if key in names.LABELS_OF_NODE - labels.keys() else new_key(key, labels.get(key, ""), regexp)


def _hostname(pod_name: str) -> str | None:
    """What containers of a pod of this name see as their host name, None where the field cannot say it.

    Kubelets cut names to 63 characters; the field takes a DNS label, so not the name of a pod with a dot in it.
    """
    cut = pod_name[: names.SHORT_LIMIT].rstrip("-.")
    return cut if _DNS_LABEL.fullmatch(cut) else None


def _rewrite_containers(spec: dict[str, Any], proxy: dict[str, Any]) -> None:
    """Take out the service account token of the source, and resolve the downward API of the environment."""
    tokens: set[str] = set()
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_container(container, proxy, tokens) for container in spec[field]]
    if tokens and spec.get("volumes"):
        # A volume that is mounted elsewhere, too, has to stay.
        used = {
            mount["name"]
            for field in ("initContainers", "containers")
            for container in spec.get(field) or ()
            for mount in container.get("volumeMounts") or ()
        }
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in tokens - used]


def _container(container: dict[str, Any], proxy: dict[str, Any], tokens: set[str]) -> dict[str, Any]:
    result = dict(container)
    mounts = container.get("volumeMounts") or ()
    token = [mount for mount in mounts if mount.get("mountPath") == names.SERVICE_ACCOUNT_MOUNT]
    if token:
        tokens.update(mount["name"] for mount in token)
        result["volumeMounts"] = [mount for mount in mounts if mount not in token]
    if container.get("env"):
        result["env"] = downward.resolve_env(container["env"], proxy)
    return result
