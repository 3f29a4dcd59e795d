"""Finds objects of this source in a target that is being drained, including objects that its stores may lack."""

from collections.abc import Container, Iterable

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.targets.target import decide


class Remains:
    """Finds chaperons that are left in a target, from stores or from its API server. Raises KubeError."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def unclaimed(self, target: Target, held: Container[Key]) -> bool:
        """Return True if the target has chaperons of this source whose pods it does not hold.

        These are orphans, or candidates whose pods have the finalizer of another target only. Chaperons that another
        Target of the same cluster shows do not count.

        :param held: keys of the pods that the target holds
        """
        sending = self._deps.inflight_chaperons
        others = [each for each in self._deps.targets if each is not target and not sending.is_closed(each)]
        return any(
            placed.target is target and not any(_shows(other, placed.chaperon) for other in others)
            for parent in self._deps.chaperons.made_here(target)
            if parent not in held
            for placed in self._deps.chaperons.of(parent)
        )

    async def doubtful(self, target: Target, pods: Iterable[Object]) -> frozenset[str]:
        """Return the UIDs of pending pods that may have a chaperon or delegate in the target, by its API server."""
        waiting = [pod for pod in pods if not pod.deleting and not pod.node_name]
        return frozenset([pod.uid for pod in waiting if not await self._deps.live_reads.is_free(target, pod)])

    async def any_in(self, target: Target) -> bool:
        """Return True if chaperons exist or are in flight that no other Target would handle. Add them to the store."""
        found = [each for each in await self._deps.live_reads.left_in(target) if not self._is_served(target, each)]
        for each in found:
            if target.chaperons.store.get(each.key) is None:
                await self._deps.live_reads.take(target, each)
        return bool(found) or self._deps.inflight_chaperons.any_to(target.key)

    def pod(self, pod: Object, target: Key, node: str, doubtful: frozenset[str]) -> decide.Pod:
        """Build the view of a pod of such a target."""
        return decide.Pod(
            key=pod.key,
            uid=pod.uid,
            version=pod.version,
            finalizers=tuple(pod.finalizers),
            here=pod.node_name == node,
            claimed=podstate.claimed_node(pod) == node,
            chaperon="doubtful" if pod.uid in doubtful else self._chaperon(pod, target, node),
            deleting=pod.deleting,
        )

    def _chaperon(self, pod: Object, target: Key, node: str) -> decide.Chaperon:
        """Return the kind of a pod's chaperon in a target.

        In mode `reserve` a chaperon starts only with a claim that names it, and with permission.
        """
        found: decide.Chaperon = "none"
        for placed in self._deps.chaperons.of(pod.key):
            if placed.target.key != target or not placed.is_of(pod):
                continue
            claimed = podstate.claims_chaperon(pod, node, placed.chaperon.uid)
            if claimed or podstate.may_start(placed.chaperon.scheduler_name, placed.chaperon.annotations):
                return "placed"
            found = "candidate"
        return found

    def _is_served(self, target: Target, chaperon: Object) -> bool:
        """Return True if another ready Target of the same cluster shows a chaperon."""
        for other in self._deps.targets:
            if other is target or not other.ready or self._deps.inflight_chaperons.is_closed(other):
                continue
            if _shows(other, chaperon):
                return True
        return False


def _shows(target: Target, chaperon: Object) -> bool:
    shown = target.chaperons.store.get(chaperon.key)
    return shown is not None and shown.uid == chaperon.uid


LOOK_SECONDS = 0.2
"""Seconds between checks for pods that have to be adopted."""
ADOPTION_SECONDS = 10.0
"""Longest wait for adoptions, from the moment when this process observes the deletion of the Target."""


def is_adopting(key: Key, target: Target | None, chaperons: Chaperons, pods: Iterable[Object]) -> bool:
    """Return True if a pod bound to a target still has to be adopted from another agent, such as Admiralty's.

    The pod lacks the target's finalizer, and its chaperon lacks this cluster's UID. It would be deleted at once, and
    leave a chaperon of unknown source. If the target is not ready, every bound pod without the finalizer counts.
    """
    unheld = [pod for pod in pods if names.finalizer(*key) not in pod.finalizers]
    if target is None or not target.ready:
        return bool(unheld)
    return any(
        placed.target is target and names.LABEL_PARENT_CLUSTER_UID not in placed.chaperon.labels and placed.is_of(pod)
        for pod in unheld
        for placed in chaperons.of(pod.key)
    )
