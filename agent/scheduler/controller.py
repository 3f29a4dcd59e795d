"""Proxy scheduler: claim a target for each proxy pod, send the chaperon there, bind when the delegate has a node.

Watches  proxy pods and virtual nodes here, our chaperons and the ClusterSummary in targets, states of targets.
Writes   claim and attempts on the proxy pod, its binding and PodScheduled condition; creates and deletes chaperons.
Absent target: gets no new pods; a pod claimed by it waits, because its chaperon may be there.
"""

from typing import Any

from agent.api import names
from agent.api.kinds import NODES, PODS
from agent.clusters import chaperons
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model.errors import InvalidPod
from agent.runtime.controller import Controller
from agent.scheduler import decide as steps
from agent.scheduler.gather import Demands
from agent.scheduler.places import Places
from agent.scheduler.world import World
from agent.scheduler.writes import Writes
from agent.scheduling.explain import explain
from agent.scheduling.ranking import Ranking, rank
from agent.scheduling.snapshot import Demand


class ProxyScheduler(Controller[Key]):
    """One reconciliation per proxy pod that is not bound; many at the same time."""

    name = "scheduler"

    def __init__(self, deps: Deps) -> None:
        super().__init__(workers=deps.settings.max_in_flight)
        self._deps = deps
        self._waiting: set[Key] = set()
        self._proxies = deps.local.informer(PODS, fields=f"spec.schedulerName={names.SCHEDULER_PROXY}")
        self._demands = Demands()
        self._world = World(self._proxies, deps.targets, deps.chaperons, self._demands, self._world_changed)
        self._weights = deps.settings.weights
        self._turn = 0
        self._writes = Writes(deps, self._proxies, self._world)
        nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self._places = Places(deps, nodes, self._world_changed)
        self.watch(nodes, lambda node: ())
        self.watch(self._proxies, self._wants_target)
        deps.chaperons.subscribe(self._chaperon_changed)

    def _wants_target(self, pod: Object) -> tuple[Key, ...]:
        if _open(pod):
            return (pod.key,)
        self._writes.forget(pod.uid)
        return ()

    def _world_changed(self) -> None:
        for key in self._waiting:
            self.queue.add(key)
        self._waiting.clear()

    def _chaperon_changed(self, parent: Key) -> None:
        pod = self._proxies.store.get(parent)
        if pod is not None and not pod.node_name:
            self.queue.add(parent)

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step for one pod."""
        self._waiting.discard(key)
        pod = self._proxies.store.get(key)
        if pod is None or pod.uid in self._writes.bound or not _open(pod):
            return None
        if not pod.known.claim and await self._cleared(pod):
            return None
        target = self._deps.targets.by_node(pod.known.claim)
        placed = self._placed(pod, target)
        chaperon = placed.decode() if placed is not None else None
        if target is not None and target.ready and chaperon is not None:
            step = steps.glance(chaperon)
            if isinstance(step, steps.Bind):
                await self._writes.bind(pod, target.node_name)
            if step is not None:
                return None
        return await self._place(pod, target, chaperon)

    async def _cleared(self, pod: Object) -> bool:
        """Whether chaperons had to go that an agent before us made of a pod without a claim.

        Admiralty makes candidates everywhere: with one of ours beside them, the pod would have two delegates. Their
        going brings us back.
        """
        found = [
            each
            for each in self._deps.chaperons.of(pod.key)
            if each.target.ready and each.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid
        ]
        for each in found:
            if not each.chaperon.deleting:
                await chaperons.delete(each.target, each.chaperon.decode())
        return bool(found)

    async def _place(self, pod: Object, target: Target | None, chaperon: dict[str, Any] | None) -> float | None:
        """Choose a target, or what to do about one that cannot take the pod."""
        proxy = pod.decode()
        if proxy["spec"].get("schedulingGates"):
            return None
        try:
            demand = self._demands.of(pod)
        except InvalidPod as error:
            await self._writes.say(proxy, f"{error}")
            return None
        self._world.refresh()
        self._turn += 1
        places = self._places.serving(pod.namespace)
        ranking = rank(demand, places, self._world.holdings, self._weights, turn=self._turn)
        view = self._view(pod, target, chaperon, demand, ranking)
        return await self._take(proxy, view, demand, steps.decide(view))

    def _placed(self, pod: Object, target: Target | None) -> Object | None:
        """The pod's chaperon in the target of its claim."""
        for each in self._deps.chaperons.of(pod.key):
            if each.target is target and each.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid:
                return each.chaperon
        return None

    def _view(
        self, pod: Object, target: Target | None, chaperon: dict[str, Any] | None, demand: Demand, ranking: Ranking
    ) -> steps.View:
        claim = pod.known.claim
        return steps.View(
            claim=claim,
            claim_known=target is not None,
            claim_ready=target is not None and target.ready,
            claim_held=any(name.startswith(names.PREFIX) for name in pod.finalizers),
            claim_unsent=bool(claim) and self._writes.unsent.get(pod.uid) == claim,
            claim_state=target.record.message if target is not None else "",
            chaperon=chaperon,
            attempts=demand.attempts,
            ranking=ranking,
        )

    async def _take(self, proxy: dict[str, Any], view: steps.View, demand: Demand, step: steps.Step) -> float | None:
        match step:
            case steps.Create():
                return await self._writes.create(proxy, view.claim)
            case steps.Claim(node_name):
                return await self._writes.claim(proxy, node_name)
            case steps.GiveUp(reason) if view.chaperon is not None:
                await self._writes.give_up(proxy, view.chaperon, view.claim, reason)
            case steps.Wait(message):
                if message or view.chaperon is None:
                    self._waiting.add((proxy["metadata"]["namespace"], proxy["metadata"]["name"]))
                    claim = {view.claim: message} if message else {}
                    await self._writes.say(proxy, explain(view.ranking, demand.attempts, claim))
            case _:
                pass
        return None


def _open(pod: Object) -> bool:
    """Whether a pod still wants a target."""
    return not (pod.deleting or pod.node_name or pod.phase in ("Succeeded", "Failed"))
