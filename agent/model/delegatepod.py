"""Delegates: proxy pod -> PodChaperon in the target -> the pod that runs there (wire contract, 4.1).

The results share unchanged parts with the arguments: treat both as read-only.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS
from agent.api.names import delegates, fencing, following, givingup
from agent.api.names.endings import ANNOTATION_GRACE_PERIOD
from agent.model import accounttoken, admitted, baseline, downward, owner_labels, priorityclass, references, sourceapi
from agent.model.errors import InvalidPod
from agent.model.manifest import source_pod
from agent.model.pattern import InvalidPattern, LabelPattern
from agent.model.proxypod import written_key
from agent.model.relabel import constraints as relabel_constraints
from agent.model.relabel import labels_there

__all__ = ["chaperon", "check", "delegate", "delegate_containers"]

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LISTS = ("initContainers", "containers")
_NAME_LIMIT = 253
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
        ANNOTATION_GRACE_PERIOD,
        names.ANNOTATION_LIVE_CHANGES,
        delegates.ANNOTATION_NEW_LABELS,
        delegates.ANNOTATION_RESTARTS,
        following.ANNOTATION_OBSERVED,
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
    exact: bool = True,
) -> dict[str, Any]:
    """Return the PodChaperon to create in a target for a proxy pod; every attempt returns the same.

    :param cluster_name: name of the source, may be empty
    :param cluster_uid: UID of the source's kube-system namespace (ruling 4)
    :param source_api: HOST:PORT of the source's API for pods that request it, empty if not available
    :param reserve: let the candidate scheduler place the delegate, rather than the scheduler that the pod names
    :param injected: the pod's namespace requests that containers added by other webhooks are copied, too
    :param exact: every delegate of the namespace in the target has exact labels, so that constraints may select by them
    :raises InvalidPod: if the manifest or an annotation of the proxy pod is unusable
    """
    metadata, source = proxy["metadata"], source_pod(proxy)
    annotations: dict[str, str] = metadata.get("annotations") or {}
    asked = names.annotation(annotations, names.INJECTED)
    travels = admitted.spec(proxy, source, injected=injected if asked is None else asked == names.INJECTED_FOLLOW)
    files = downward.Files(_labels(proxy, source), baseline.annotations(proxy))
    spec, labels = _rewritten(proxy, travels, files, reserve=reserve, exact=exact)
    ours = owner_labels.labels(metadata, cluster_name=cluster_name, cluster_uid=cluster_uid)
    if source_api and sourceapi.asks(annotations):
        spec = sourceapi.pointed(spec, travels, sourceapi.secret_name(metadata), source_api)
    return {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {
            "name": names.chaperon(metadata["name"], metadata["uid"]),
            "namespace": metadata["namespace"],
            "labels": {**labels, **ours, names.LABEL_SERVING: "true"},
            "annotations": {**_annotations(proxy, source), **files.annotations},
        },
        "spec": spec,
    }


def check(proxy: dict[str, Any]) -> None:
    """Check at admission that the agent can create a chaperon for a proxy pod; its name and UID may not exist yet.

    Builds the chaperon only for pods with a regular expression or downward API, which alone can exceed a limit.

    :raises InvalidPod: as `chaperon`, or if the pod names too many ConfigMaps, Secrets and claims
    """
    references.check(proxy)
    metadata = proxy["metadata"]
    env = (
        each for field in _LISTS for container in proxy["spec"].get(field) or () for each in container.get("env") or ()
    )
    has_pattern = bool(names.annotation(metadata.get("annotations"), names.NO_PREFIX_REGEXP))
    if has_pattern or any((each.get("valueFrom") or {}).get("fieldRef") for each in env):
        longest = {"name": metadata.get("name") or "x" * _NAME_LIMIT, "uid": "x" * 36}
        chaperon({**proxy, "metadata": {**metadata, **longest}}, cluster_name="", cluster_uid="")


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
    """Return the delegate that the target creates for a PodChaperon: same name, labels and spec, controlled by it.

    Annotations with which schedulers and controllers communicate are not copied to the delegate.
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


def delegate_containers(containers: Iterable[dict[str, Any]], proxy: dict[str, Any]) -> list[dict[str, Any]]:
    """Return containers of the proxy pod, rewritten for its delegate.

    :raises InvalidPod: if their resolved environment variables are too long
    """
    environment, tokens = _environment(proxy), accounttoken.admission_volumes(proxy["spec"])
    return [_container(container, environment, tokens) for container in containers]


def _creator(metadata: Mapping[str, Any]) -> dict[str, str]:
    creator = (metadata.get("annotations") or {}).get(names.ANNOTATION_CREATED_BY)
    return {names.ANNOTATION_CREATED_BY: creator} if creator else {}


def _rewritten(
    proxy: dict[str, Any], travels: dict[str, Any], files: downward.Files, *, reserve: bool, exact: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return spec and labels for the target. Both share one limit for the pod's regular expression."""
    annotations = proxy["metadata"].get("annotations") or {}
    try:
        pattern = LabelPattern(names.annotation(annotations, names.NO_PREFIX_REGEXP))
        selectors = relabel_constraints(travels, files.labels, pattern, exact=exact)
        return _spec(proxy, {**travels, **selectors}, files, reserve=reserve), labels_there(files.labels, pattern)
    except InvalidPattern as error:
        key = written_key(annotations, names.NO_PREFIX_REGEXP)
        raise InvalidPod(f"metadata.annotations[{key}]", str(error)) from error


def _labels(proxy: dict[str, Any], source: dict[str, Any]) -> dict[str, str]:
    """Return the proxy pod's labels without labels that the API server copied from the virtual node at binding."""
    found, sent = baseline.labels(proxy), baseline.labels(source)
    of_node = names.LABELS_OF_NODE - sent.keys() if proxy["spec"].get("nodeName") else ()
    return {key: value for key, value in found.items() if key not in of_node}


def _spec(proxy: dict[str, Any], travels: dict[str, Any], files: downward.Files, *, reserve: bool) -> dict[str, Any]:
    """Return the pod's spec for the target."""
    spec = dict(travels)
    if reserve:
        spec["schedulerName"] = names.SCHEDULER_CANDIDATE
    elif spec.get("schedulerName") in _OUR_SCHEDULERS:
        # In the target, a pod that names one of our schedulers would be a proxy pod or a candidate.
        del spec["schedulerName"]
    hostname = _hostname(proxy["metadata"]["name"])
    if hostname and not spec.get("hostname") and not spec.get("hostNetwork"):
        spec["hostname"] = hostname
    _rewrite_containers(spec, proxy)
    if spec.get("volumes"):
        spec["volumes"] = [files.redirect(volume) for volume in spec["volumes"]]
    return spec


def _hostname(pod_name: str) -> str | None:
    """Return the host name of containers in a pod of this name; None if it is not valid as `spec.hostname`.

    The kubelet cuts the pod's name to 63 characters. The field must be a DNS label, without dots.
    """
    cut = pod_name[: names.SHORT_LIMIT].rstrip("-.")
    return cut if _DNS_LABEL.fullmatch(cut) else None


def _rewrite_containers(spec: dict[str, Any], proxy: dict[str, Any]) -> None:
    """Remove the source's service account token, and resolve downward API references in the environment."""
    tokens = accounttoken.admission_volumes(proxy["spec"])
    environment = _environment(proxy)
    for field in _LISTS:
        if spec.get(field):
            spec[field] = [_container(container, environment, tokens) for container in spec[field]]
    if tokens and spec.get("volumes"):
        # Keep a volume that a container also mounts at another path.
        used = {
            mount["name"]
            for field in _LISTS
            for container in spec.get(field) or ()
            for mount in container.get("volumeMounts") or ()
        }
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in tokens - used]


def _environment(proxy: dict[str, Any]) -> downward.Environment:
    return downward.Environment(proxy, baseline.annotations(proxy))


def _container(container: dict[str, Any], environment: downward.Environment, tokens: Collection[str]) -> dict[str, Any]:
    result = dict(container)
    if accounttoken.mounts_token(container, tokens):
        result["volumeMounts"] = [
            mount
            for mount in container["volumeMounts"]
            if mount["name"] not in tokens or mount.get("mountPath") != names.SERVICE_ACCOUNT_MOUNT
        ]
    if container.get("env"):
        result["env"] = environment.resolve(container)
    return result
