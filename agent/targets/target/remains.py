"""What a target that is being removed may still have of ours, beside what can be seen of it."""

from collections.abc import Container, Iterable

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.targets.target import decide


class Remains:
    """Looks for what is left in a target, at its API server where stores do not tell. Raises KubeError."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def unclaimed(self, target: Target, held: Container[Key]) -> bool:
        """Whether chaperons are seen there that this cluster has made for pods that the target does not hold: for none,
        or candidates that have lost, whose pods keep the finalizer of another target alone.

        What another Target of the same cluster shows is that one's to take care of.
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
        """UIDs of those pods that wait and may have a chaperon there, or a delegate; a chaperon is seen then."""
        waiting = [pod for pod in pods if not pod.deleting and not pod.node_name]
        return frozenset([pod.uid for pod in waiting if not await self._deps.live_reads.is_free(target, pod)])

    async def any_in(self, target: Target) -> bool:
        """Whether chaperons are there, or on their way, that nobody would be connected with."""
        found = [each for each in await self._deps.live_reads.left_in(target) if not self._is_served(target, each)]
        for each in found:
            if target.chaperons.store.get(each.key) is None:
                await self._deps.live_reads.take(target, each)
        return bool(found) or self._deps.inflight_chaperons.any_to(target.key)

    def pod(self, pod: Object, target: Key, node: str, doubtful: frozenset[str]) -> decide.Pod:
        """A pod of such a target, for its decision."""
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
        """What a pod has in a target: in mode `reserve` nothing starts without a claim that names it, and leave."""
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
        """Whether another Target stands for the same cluster and goes on to take care of a chaperon."""
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
        placed.target is target and names.LABEL_PARENT_CLUSTER_UID not in placed.chaperon.labels and placed.is_of(pod)
        for pod in unheld
        for placed in chaperons.of(pod.key)
    )
