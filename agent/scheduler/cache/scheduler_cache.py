"""Scheduler cache: inputs of every decision: a pod's constraints, all targets, and the pods of this source in them."""

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace

from agent.api import names
from agent.api.kinds import NODES
from agent.base.clock import parse
from agent.clusters.deps import Deps
from agent.clusters.health.record import grace
from agent.clusters.stores.claim_filters import asked_by, filter_of
from agent.clusters.stores.namespaces import turns
from agent.clusters.stores.placement_decisions import placement_of
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model.claimfilter import ClaimFilter
from agent.model.namespaces import not_enabled
from agent.model.podstate import claimed_node
from agent.model.targetchoice import TargetChoice
from agent.ranking.placed import Placed, misplaced, reasoned
from agent.ranking.rank import Ranking, rank
from agent.ranking.snapshot import PodInfo, TargetInfo
from agent.scheduler.cache.assumed_pods import AssumedPods
from agent.scheduler.cache.decisions import Decisions
from agent.scheduler.cache.missing_schedulers import MissingSchedulers
from agent.scheduler.cache.pod_info import PodInfos
from agent.scheduler.cache.refusing_targets import RefusingTargets
from agent.scheduler.cache.target_cache import TargetCache
from agent.scheduler.metrics import PHASE

NEW_SECONDS = 2.0
"""Age in seconds below which a pod's namespace may not be cached yet: both may have been created together."""

_AVERAGED = 32
"""Number of rankings in the moving average of their duration."""
_STEP_SECONDS = 0.0002


class SchedulerCache:
    """One instance for the scheduler. It calls `changed` when waiting pods may now find a target.

    It calls `decided` with the pods that follow a Placement whose decisions or reasons have changed.
    """

    def __init__(self, deps: Deps, changed: Callable[[], None], decided: Callable[[Iterable[Key]], None]) -> None:
        self.proxies = deps.proxies.informer
        self.nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self.namespaces = deps.namespaces.informer
        self._is_enabled = deps.namespaces.is_enabled
        self._changed = changed
        self._decided = decided
        self.decisions = Decisions(deps.placement, self.namespaces, deps.clock, decided)
        self._choices = deps.choices
        self._choices.on_change(decided)
        self.epoch = 0
        """Incremented with every call of `changed`."""
        self.pod_infos = PodInfos()
        self.assumed = AssumedPods(
            self.proxies,
            deps.targets,
            deps.chaperons,
            self.pod_infos,
            deps.cluster_uid,
            self._change,
            enabled=self._is_enabled,
        )
        self._targets = TargetCache(deps, self.nodes, self._change)
        self._refusing = RefusingTargets(deps.targets, deps.chaperons, self._change)
        self.missing = MissingSchedulers(self._change)
        self._clock = deps.clock
        self._prerequisites = deps.prerequisites
        self._weights = deps.settings.weights
        self._grace = deps.settings.placement_grace
        self._turn = 0
        self._ranking_seconds = 0.0
        self._soon: set[Key] = set()
        """Pods that a timer will requeue."""
        self.namespaces.subscribe(self._relabelled)
        deps.namespaces.on_turn(lambda namespace: self._change())

    def ranking(self, pod: Object) -> tuple[PodInfo, Ranking]:
        """Return the pod's demands and the ranking of its targets.

        :raises InvalidPod: if its manifest is unusable
        """
        started, worked = time.perf_counter(), time.thread_time()
        pod_info = self.pod_infos.of(pod).beside(self._prerequisites.places(pod))
        pod_info = pod_info.following(self.decisions.of(pod)).choosing(self._choices.of(pod))
        pod_info = pod_info.claiming(self._claims(pod))
        self.assumed.refresh()
        self._turn += 1
        targets: Sequence[TargetInfo] = self._targets.serving(pod.namespace)
        if self._refusing.nodes:
            targets = self._refusing.seen_by(pod, targets, pod_info.attempts)
        targets = self.missing.seen_by(pod_info.source, claimed_node(pod), targets)
        ranking = rank(pod_info, targets, self.assumed.usages, self._weights, turn=self._turn)
        self._ranking_seconds += (time.thread_time() - worked - self._ranking_seconds) / _AVERAGED
        PHASE.labels("rank").observe(time.perf_counter() - started)
        return pod_info, ranking

    @property
    def seconds(self) -> float:
        """Average CPU seconds of an unsuccessful attempt at a pod: ranking it, and recording why it waits."""
        return _STEP_SECONDS + 2 * self._ranking_seconds

    def moment(self, pod: Object) -> tuple[int, str, Placed | None, TargetChoice | None, ClaimFilter | None]:
        """Return the inputs of `ranking` other than free capacity, for comparison with an earlier call."""
        return self.epoch, pod.version, self.decisions.of(pod), self._choices.of(pod), self._claims(pod)

    def _claims(self, pod: Object) -> ClaimFilter | None:
        """Return which claims the target's cluster has to have."""
        return filter_of(self.pod_infos.asks(pod), asked_by(self.namespaces.store.get(("", pod.namespace))))

    def reasoned(self, pod: Object, ranking: Ranking) -> Ranking:
        """Add to a ranking, for display, why the pod's Placement has not decided for each cluster."""
        placed = self.decisions.of(pod)
        if placed is None or not ranking.rejected:
            return ranking
        reasons = self.decisions.reasons((pod.namespace, placed.reference.name))
        return replace(ranking, rejected=reasoned(ranking.rejected, placed, reasons))

    def misplaced(self, pod: Object, target: Target) -> str:
        """Return why an annotation or the Placement now rules out the pod's target; empty if allowed or `spared`."""
        choice, claims = self._choices.of(pod), self._claims(pod)
        if choice is not None and (why := choice.misplaced(target)):
            return why
        if claims is not None and (why := claims.misplaced(self._targets.info_of(target))):
            return why
        return "" if self.spared(pod, target) else self._unplaced(pod, target)

    def _unplaced(self, pod: Object, target: Target) -> str:
        placed = self.decisions.of(pod)
        return misplaced(placed, self._targets.info_of(target)) if placed is not None else ""

    def spared(self, pod: Object, target: Target) -> bool:
        """Return True if a pod keeps a target without a Placement decision for now, because the target has just
        returned.

        The pod is requeued when that grace period ends.
        """
        left = grace(target.record, self._clock.now(), self._grace)
        if not left or not self._unplaced(pod, target):
            return False
        if pod.key not in self._soon:
            self._soon.add(pod.key)
            asyncio.get_running_loop().call_later(left, self._due, pod.key)
        return True

    def _due(self, pod: Key) -> None:
        self._soon.discard(pod)
        self._decided((pod,))

    def end_trials(self, pod: Object, but: Container[str] = ()) -> None:
        """Stop a pod's trials of targets that refuse pods, except on the virtual nodes in `but`."""
        if self._refusing.nodes:
            self._refusing.end_trials(pod, but)

    def _change(self) -> None:
        self.epoch += 1
        self._changed()

    def _relabelled(self, old: Object | None, new: Object | None) -> None:
        namespace = new or old
        assert namespace is not None
        if turns(old, new):
            self.assumed.namespace_turned(namespace.name)
        if old is not None and (placement_of(old), asked_by(old)) != (placement_of(new), asked_by(new)):
            self._decided([pod.key for pod in self.proxies.store if pod.namespace == namespace.name])
        if self.pod_infos.relabel(namespace.name, new.labels if new is not None else {}):
            self.assumed.usages.counts.recount()
            self._change()

    def injected_follow(self, namespace: str) -> bool:
        """Return the namespace's default for containers that other webhooks inject: True if delegates keep them."""
        found = self.namespaces.store.get(("", namespace))
        return found is not None and names.annotation(found.annotations, names.INJECTED) == names.INJECTED_FOLLOW

    def version(self, target: Target) -> str:
        """Return the Kubernetes version in the status of a target's virtual node; empty if unknown."""
        node = self.nodes.store.get(("", target.node_name))
        told = (node.decode().get("status") or {}).get("nodeInfo") if node is not None else None
        return str((told or {}).get("kubeletVersion") or "")

    def can_tell(self, pod: Object) -> bool:
        """Return True if enough is cached about all targets of a pod to report why it waits."""
        return self._targets.knows_all(pod.namespace) and self.knows_where(pod)

    def knows_where(self, pod: Object) -> bool:
        """Return True if the targets allowed by the pod's annotations and Placement are cached."""
        claims_known = self._claims(pod) is None or self._targets.knows_claims(pod.namespace)
        return claims_known and self.decisions.can_tell(pod) and self._choices.can_tell(pod)

    def closed(self, namespace: str) -> str:
        """Return why no pod of a namespace gets a new target; empty if pods may."""
        return "" if self._is_enabled(namespace) else not_enabled(namespace)

    def is_gone(self, pod: Object) -> bool:
        """Return True if a pod has been deleted or is terminating."""
        current = self.proxies.store.get(pod.key)
        return current is None or current.uid != pod.uid or current.deleting

    def is_new(self, pod: Object) -> bool:
        """Return True if the pod is so new that the watch may not show yet that its namespace is enabled."""
        if self._is_enabled(pod.namespace):
            return False
        age = self._clock.now() - parse(pod.head.metadata.creation_timestamp or "")
        return 0 <= age.total_seconds() < NEW_SECONDS
