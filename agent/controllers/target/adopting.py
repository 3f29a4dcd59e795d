"""Pods of a target that Admiralty's agent, here before us, has sent there, and whose chaperons are not ours yet."""

from collections.abc import Iterable

from agent.api import names
from agent.clusters.chaperons import Chaperons
from agent.clusters.target import Target
from agent.kube.store import Object

LOOK_SECONDS = 0.2
"""Pause between looks."""


def is_adopting(target: Target | None, chaperons: Chaperons, pods: Iterable[Object]) -> bool:
    """Whether one of the pods that are bound there has a chaperon without our cluster's UID: it would outlive its pod,
    which no finalizer may hold, and nobody would know whose it is.
    """
    if target is None or not target.ready:
        return False
    return any(
        placed.target is target
        and names.LABEL_PARENT_CLUSTER_UID not in placed.chaperon.labels
        and placed.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid
        for pod in pods
        for placed in chaperons.of(pod.key)
    )
