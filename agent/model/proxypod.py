"""Proxy pods: conversion of an elected pod in the source cluster (wire contract, 3).

Results share unchanged parts with the arguments: treat both as read-only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.api import names
from agent.model import constraints, manifest, proxycopy
from agent.model.errors import InvalidPod
from agent.model.manifest import source_pod
from agent.model.podstate import is_our_finalizer
from agent.model.proxychecks import check_asked, check_size, written_key

__all__ = ["InvalidPod", "is_elected", "is_proxy", "proxy_pod", "source_pod", "written_key"]

TOLERATIONS: tuple[dict[str, str], ...] = (
    {"key": names.PROVIDER_KEY, "value": names.PROVIDER_VALUE},
    {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
    # Unlimited: failover decides about pods of a lost target, not Kubernetes' node lifecycle (ruling 15).
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
)
NODE_LOST = frozenset(toleration["key"] for toleration in TOLERATIONS if "effect" in toleration)
"""Taints that evict pods from a lost node."""


def is_delegate(pod: Mapping[str, Any]) -> bool:
    """Return whether a PodChaperon controls the pod."""
    return _is_controlled_by(pod, "PodChaperon", names.GROUP)


def is_of_a_daemon_set(pod: Mapping[str, Any]) -> bool:
    """Return whether a DaemonSet controls the pod."""
    return _is_controlled_by(pod, "DaemonSet", "apps")


def is_elected(pod: Mapping[str, Any], *, by_default: bool = False) -> bool:
    """Return whether the pod is elected: it has `elect` under either prefix, with any value.

    Only `multicluster/elect: "false"` opts out. A PodChaperon's pod is never elected (ruling 3). A copy of a
    proxy pod is, since it names the proxy scheduler: `kubectl debug --copy-to` omits annotations.

    :param by_default: whether the pod's namespace elects its pods. This excludes pods of DaemonSets, which belong
        to the source's nodes, and pods that are created on a node
    """
    annotations = pod.get("metadata", {}).get("annotations") or {}
    if names.PREFIX + names.ELECT not in annotations:
        short = annotations.get(names.SHORT_PREFIX + names.ELECT)
        by_itself = is_proxy(pod) or (by_default and _may_be_elected_by_default(pod))
        if short == "false" or (short is None and not by_itself):
            return False
    return not is_delegate(pod)


def _may_be_elected_by_default(pod: Mapping[str, Any]) -> bool:
    return not pod.get("spec", {}).get("nodeName") and not is_of_a_daemon_set(pod)


def _is_controlled_by(pod: Mapping[str, Any], kind: str, group: str) -> bool:
    return any(
        owner.get("controller") and owner.get("kind") == kind and _group(owner) == group
        for owner in pod.get("metadata", {}).get("ownerReferences") or ()
    )


def is_proxy(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod is a proxy pod: its scheduler is the proxy scheduler."""
    return bool(pod.get("spec", {}).get("schedulerName") == names.SCHEDULER_PROXY)


def proxy_pod(pod: dict[str, Any], finalizers: Sequence[str]) -> dict[str, Any]:
    """Return the proxy pod of an elected pod, or of a copy of a proxy pod; return a proxy pod unchanged.

    :param finalizers: of all targets that the pod's namespace can use, Targets and ClusterTargets
    :raises InvalidPod: if an annotation or field cannot be honoured
    """
    # Check the size before anything in the annotations is parsed.
    check_size((pod.get("metadata") or {}).get("annotations") or {})
    if (pod.get("spec") or {}).get("nodeName"):
        raise InvalidPod(
            "spec.nodeName", "the node of an elected pod is chosen by the proxy scheduler: remove the field"
        )
    pod = _uncopied(_without_state(pod))
    metadata: dict[str, Any] = pod.get("metadata") or {}
    annotations: dict[str, str] = dict(metadata.get("annotations") or {})
    spec: dict[str, Any] = pod.get("spec") or {}
    _check_daemon(pod, annotations)
    if names.ANNOTATION_MANIFEST in annotations:
        source = source_pod(pod)
        manifest.check_containers(source, spec)
    else:
        source = pod
        annotations[names.ANNOTATION_MANIFEST] = manifest.fitting(pod, annotations)
    check_asked(annotations, metadata, spec)
    if not annotations[names.ANNOTATION_MANIFEST].startswith("{"):
        # The agent parses it often, and YAML takes a hundred times as long.
        annotations[names.ANNOTATION_MANIFEST] = manifest.of(source)
    check_size(annotations)
    kept = [name for name in metadata.get("finalizers") or () if not is_our_finalizer(name)]
    return {
        **pod,
        "metadata": {
            **metadata,
            "annotations": annotations,
            "labels": {**(metadata.get("labels") or {}), names.LABEL_HAS_FINALIZER: "true"},
            "finalizers": list(dict.fromkeys([*kept, *finalizers])),
        },
        "spec": _proxy_spec(spec, _constraints(annotations, source)),
    }


def _without_state(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod without the scheduler's state of another pod, which a backup or a copy may have."""
    metadata = pod.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not names.STATE_OF_PROXY & annotations.keys():
        return pod
    kept = {key: value for key, value in annotations.items() if key not in names.STATE_OF_PROXY}
    return {**pod, "metadata": {**metadata, "annotations": kept}}


def _uncopied(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the elected pod that a copy of a proxy pod represents; return any other pod unchanged."""
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    if not is_proxy(pod) or selector.get(names.PROVIDER_KEY) != names.PROVIDER_VALUE:
        return pod
    known = names.ANNOTATION_MANIFEST in (pod["metadata"].get("annotations") or {})
    source = source_pod(pod) if known else None
    if source is not None and proxycopy.is_same(pod, source):
        return pod
    return proxycopy.original(pod, source, TOLERATIONS)


def _group(owner: Mapping[str, Any]) -> str:
    return str(owner.get("apiVersion", "")).partition("/")[0]


def _proxy_spec(spec: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in spec.items() if key not in constraints.FIELDS}
    result["nodeSelector"] = {**wanted.get("nodeSelector", {}), names.PROVIDER_KEY: names.PROVIDER_VALUE}
    result["tolerations"] = [*TOLERATIONS, *wanted.get("tolerations", ())]
    result.update({key: wanted[key] for key in ("affinity", "topologySpreadConstraints") if wanted.get(key)})
    result["schedulerName"] = names.SCHEDULER_PROXY
    result["terminationGracePeriodSeconds"] = _longest_sleep(spec)
    return result


def _longest_sleep(spec: Mapping[str, Any]) -> int:
    """Return seconds of the longest sleep among the lifecycle hooks, 0 for most pods.

    The API server rejects a pod with a hook that sleeps longer than its grace period. No kubelet waits for a
    proxy pod: the agent removes it when its delegate has been deleted.
    """
    hooks = (
        hook
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for hook in (container.get("lifecycle") or {}).values()
        if isinstance(hook, Mapping)
    )
    return max(((hook.get("sleep") or {}).get("seconds") or 0 for hook in hooks), default=0)


def given_constraints(source: dict[str, Any]) -> dict[str, Any]:
    """Return the constraints for proxy pods in annotations of a pod.

    :raises InvalidPod: if they cannot be parsed
    """
    return _constraints(source["metadata"].get("annotations") or {}, source)


def given_tolerations(source: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tolerations that the webhook added to a proxy pod.

    :param source: the pod as its user sent it
    :raises InvalidPod: if its constraints cannot be parsed
    """
    return [*TOLERATIONS, *given_constraints(source).get("tolerations", ())]


def _constraints(annotations: Mapping[str, str], source: dict[str, Any]) -> dict[str, Any]:
    """Return the proxy pod's scheduling constraints: from the annotation, else from the source's spec if requested."""
    text = names.annotation(annotations, names.PROXY_CONSTRAINTS)
    if text is not None:
        field = f"metadata.annotations[{written_key(annotations, names.PROXY_CONSTRAINTS)}]"
        wanted = constraints.parse(field, text)
    elif names.annotation(annotations, names.USE_CONSTRAINTS) is not None:
        field = "spec"
        wanted = {key: source["spec"][key] for key in constraints.FIELDS if source.get("spec", {}).get(key)}
        wanted["tolerations"] = [item for item in wanted.get("tolerations", ()) if not is_limited(item)]
    else:
        return {}
    provider = wanted.get("nodeSelector", {}).get(names.PROVIDER_KEY, names.PROVIDER_VALUE)
    if provider != names.PROVIDER_VALUE:
        raise InvalidPod(
            f"{field}.nodeSelector[{names.PROVIDER_KEY}]",
            f"proxy pods run on nodes where this is {names.PROVIDER_VALUE}, not {provider!r}: remove the key",
        )
    return wanted


def is_limited(toleration: Mapping[str, Any]) -> bool:
    """Return whether a toleration limits the unlimited ones: the shortest one applies, and API servers add 300 s."""
    return toleration.get("tolerationSeconds") is not None and toleration.get("key") in NODE_LOST


def _check_daemon(pod: Mapping[str, Any], annotations: Mapping[str, str]) -> None:
    """Reject a DaemonSet's pod without its affinity. The DaemonSet controller finds pods by the node in their
    affinity, and would create further pods forever.
    """
    keeps_affinity = (
        names.annotation(annotations, names.USE_CONSTRAINTS) is not None
        and names.annotation(annotations, names.PROXY_CONSTRAINTS) is None
    )
    if not keeps_affinity and is_of_a_daemon_set(pod):
        raise InvalidPod(
            "metadata.ownerReferences",
            "the pods of a DaemonSet belong to the nodes of this cluster: remove the annotation "
            f"{written_key(annotations, names.ELECT)} from its template",
        )
