"""Proxy scheduler: choose a target for each proxy pod, have its delegate scheduled, bind the pod to the virtual node.

Watches  proxy pods, virtual nodes and namespaces in the source; our chaperons and the ClusterSummary in targets; states
         of targets.
Writes   claim and attempts on the proxy pod, its binding and PodScheduled condition; creates, allows and deletes
         chaperons.
Absent target: gets no new pods; a pod claimed for it waits, because its chaperon may exist.
"""

from collections.abc import Iterable
from typing import Any

from agent.base.metrics import shown
from agent.clusters.deps import Deps
from agent.clusters.stores.placement_decisions import placement_of
from agent.clusters.stores.target_choices import POD, said_by
from agent.kube.store import Key, Object
from agent.runtime.controller import Controller
from agent.runtime.task_group import together
from agent.scheduler.cache.scheduler_cache import NEW_SECONDS, SchedulerCache
from agent.scheduler.chaperon_writer import ChaperonWriter
from agent.scheduler.groups.controller import GroupScheduling
from agent.scheduler.limits import RequestLimits
from agent.scheduler.metrics import IN_FLIGHT
from agent.scheduler.modes import group_name, group_of, is_open, mode_of
from agent.scheduler.proxy_writer import ProxyWriter
from agent.scheduler.ranked.controller import RankedScheduling
from agent.scheduler.reserve.candidate_writer import CandidateWriter
from agent.scheduler.reserve.controller import ReserveScheduling
from agent.scheduler.results import Done, Queued, RequeueAfter, Result
from agent.scheduler.waiting import WaitingPods


class ProxyScheduler(Controller[Key]):
    """Reconciles each unbound proxy pod, or each group of them; many concurrently.

    Pods of higher priority come first. At equal priority, pods that have found no target come after new ones, and
    new ones after pods with a chaperon: in a burst, pods whose delegates run would be bound only at its end.
    """

    name = "scheduler"

    def __init__(self, deps: Deps) -> None:
        super().__init__(workers=deps.settings.max_in_flight)
        self._default = deps.settings.scheduling
        self._chaperons = deps.chaperons
        self._woken: set[Key] = set()
        self._waiting = WaitingPods(self._try, lambda key: self.order(key)[0], lambda: self._cache.seconds)
        self._cache = SchedulerCache(deps, self._waiting.changed, self._decided)
        limits = RequestLimits(deps.targets, lambda: deps.settings.max_in_flight, self._wake, self.queue.add)
        self._proxies = ProxyWriter(deps, self._cache)
        chaperons = ChaperonWriter(deps, self._cache, self._proxies)
        self._candidates = CandidateWriter(deps, self._cache, self._proxies, chaperons, limits, self._wake)
        self._ranked = RankedScheduling(deps, self._cache, self._proxies, chaperons, limits, self._wake)
        self._reserve = ReserveScheduling(deps, self._cache, self._proxies, chaperons, self._candidates, limits)
        self._groups = GroupScheduling(deps, self._cache, self._proxies, self._reserve, limits, self.queue.add)
        self.watch(self._cache.namespaces, lambda namespace: ())
        self.watch(self._cache.nodes, lambda node: ())
        self.watch(self._cache.proxies, lambda pod: ())
        self._cache.proxies.subscribe(self._pod_changed)
        self._cache.proxies.subscribe(self._note)
        deps.chaperons.subscribe(self._chaperon_changed)

    async def run(self) -> None:
        """Schedule pods and write candidates until cancelled."""
        with shown(IN_FLIGHT, self._proxies.stopwatch.count):
            await together(super().run(), self._candidates.run())

    def order(self, key: Key) -> Any:
        """Sort key: priority first, then pods without an unsuccessful attempt, of these the ones with a chaperon."""
        if group_name(key) is not None:
            return (-max((pod.priority for pod in self._groups.members(key)), default=0), key in self._woken, True)
        pod = self._cache.proxies.store.get(key)
        return (-pod.priority if pod is not None else 0, key in self._woken, not self._chaperons.any_of(key))

    def _note(self, old: Object | None, new: Object | None) -> None:
        """Drop a pod's state as soon as it needs no target any longer or has been deleted."""
        if new is not None and is_open(new):
            if not new.gated:
                self._proxies.stopwatch.begin(new.uid)
        elif new is not None:
            self._forget(new.uid)
        if old is not None and (new is None or new.uid != old.uid):
            self._forget(old.uid)

    def _forget(self, uid: str) -> None:
        self._cache.decisions.forget(uid)
        self._proxies.forget(uid)
        self._ranked.forget(uid)
        self._reserve.forget(uid)

    def _try(self, key: Key, in_vain: bool) -> None:
        if in_vain:
            self._woken.add(key)
        self.queue.add(key)

    def _decided(self, pods: Iterable[Key]) -> None:
        for key in pods:
            if self._waiting.leave(key):
                self._woken.add(key)
            self._wake(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Requeue a changed pod, except for our own write, unless another client has changed the spec meanwhile."""
        if self._proxies.absorbing and old is not None and new is not None and _asked(old) == _asked(new):
            return
        for pod in (old, new):
            group = group_of(pod) if pod is not None else None
            if group is not None:
                self.queue.add(group)
            elif pod is new and pod is not None and is_open(pod):
                self.queue.add(pod.key)

    def _chaperon_changed(self, parent: Key) -> None:
        if not self._proxies.absorbing:
            self._wake(parent)

    def _wake(self, key: Key) -> None:
        pod = self._cache.proxies.store.get(key)
        if pod is not None and not pod.node_name:
            self.queue.add(group_of(pod) or key)

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for one pod, or for the pods of one group."""
        self._waiting.leave(key)
        self._woken.discard(key)
        epoch = self._cache.epoch
        result = await (self._groups.step(key) if group_name(key) is not None else self._step(key))
        if isinstance(result, Done):
            return None
        in_vain = not isinstance(result, Queued)
        if self._cache.epoch != epoch:
            # The change may have come after the step read the cache, and does not wake a pod during its step.
            self._waiting.try_again(key, in_vain=in_vain)
        else:
            self._waiting.wait(key, in_vain=in_vain)
        return result.seconds if isinstance(result, RequeueAfter) else None

    async def _step(self, key: Key) -> Result:
        pod = self._cache.proxies.store.get(key)
        if pod is None or pod.uid in self._proxies.bound or not is_open(pod) or pod.gated:
            return Done()
        if self._cache.is_new(pod):
            return RequeueAfter(NEW_SECONDS)
        self._cache.decisions.follow(pod)
        mode = mode_of(pod, self._cache.namespaces.store.get(("", pod.namespace)), self._default)
        return await (self._reserve.admitted_step(pod) if mode == "reserve" else self._ranked.step(pod))


def _asked(pod: Object) -> tuple[object, ...]:
    return pod.head.metadata.generation, pod.deleting, pod.gated, pod.labels, placement_of(pod), said_by(POD, pod)
