"""Pods that Admiralty's agent, here before us, has sent to a target, and whose chaperons are not ours yet."""

from collections.abc import Iterable

from agent.api import names
from agent.clusters.chaperons import Chaperons
from agent.clusters.target import Target
from agent.kube.store import Key, Object

LOOK_SECONDS = 0.2
"""Pause between looks."""
ADOPTION_SECONDS = 10.0
"""How long they are waited for from when the agent sees the Target going, which may be long after its deletion."""


def is_adopting(key: Key, target: Target | None, chaperons: Chaperons, pods: Iterable[Object]) -> bool:
    """Whether one of the pods that are bound to a target has no finalizer, so that it would go at once, and a chaperon
    without our cluster's UID, or none that is known yet: it would be left behind, and nobody would know whose it is.
    """
    unheld = [pod for pod in pods if names.finalizer(*key) not in pod.finalizers]
    if target is None or not target.ready:
        return bool(unheld)
    return any(
        placed.target is target
        and names.LABEL_PARENT_CLUSTER_UID not in placed.chaperon.labels
        and placed.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid
        for pod in unheld
        for placed in chaperons.of(pod.key)
    )
