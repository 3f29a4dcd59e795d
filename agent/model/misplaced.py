"""Pods on virtual nodes that are neither proxy pods nor pods of DaemonSets: their containers never run. Pure."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from agent.api.conditions import condition_of
from agent.model.podstate import ENDED
from agent.model.proxypod import is_of_a_daemon_set, is_proxy


class Remedy(Enum):
    """Answer to a pod on a virtual node."""

    NONE = auto()
    EVICT = auto()
    """Its controller creates another pod, which finds no capacity on virtual nodes."""
    REPORT = auto()
    """No controller would replace it, its user has named the node, or its deletion would be a failure of its Job."""


def remedy(pod: Mapping[str, Any]) -> Remedy:
    """Return the answer to a pod on a virtual node."""
    metadata = pod["metadata"]
    ended = (pod.get("status") or {}).get("phase") in ENDED
    if is_proxy(pod) or is_of_a_daemon_set(pod) or ended or metadata.get("deletionTimestamp"):
        return Remedy.NONE
    # The API server writes the condition when a scheduler binds a pod, not when a pod is created on a node.
    scheduled = (condition_of(pod, "PodScheduled") or {}).get("status") == "True"
    controlled = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    return Remedy.EVICT if scheduled and controlled and not _is_of_a_job(pod) else Remedy.REPORT


def _is_of_a_job(pod: Mapping[str, Any]) -> bool:
    """Return True for a pod whose deletion would count as a failure of its Job."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("kind") == "Job" for owner in owners)


def message(node: str, answer: Remedy) -> str:
    """Return the text of the event on the pod."""
    text = f"node {node} stands for another cluster, and no container of this pod runs there"
    if answer is Remedy.EVICT:
        return f"{text}: it is deleted for its controller to make another, which schedulers place on other nodes"
    return f"{text}: delete it, and create it again without spec.nodeName, or elect it to have it run in that cluster"
