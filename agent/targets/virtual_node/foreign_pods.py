"""Stray pods: handles pods on virtual nodes that are not proxy pods, mostly pods of DaemonSets.

Watches  pods of each virtual node that have another scheduler than the agent's.
Writes   the status of DaemonSets' pods, unless a setting disables that: they count as ready, and nothing runs.
         Deletes other pods if a controller replaces them, with an event: they tolerate every taint, and were bound
         before the node was closed to schedulers. Pods without such a controller get the event only.
         Deletes terminating pods with grace 0: they have never run, and no kubelet confirms their end (ruling 5).
         After the deletion of a node it deletes DaemonSets' pods for a minute, until Kubernetes' garbage collector
         of pods takes over.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from agent.api.kinds import NODES, PODS
from agent.base.backoff import Backoff
from agent.clusters.deps import Deps
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Key, Object
from agent.model import daemonpod, misplaced
from agent.model.misplaced import Remedy
from agent.model.podstate import OTHER_PODS
from agent.model.proxypod import is_of_a_daemon_set
from agent.model.virtualnode import is_closed
from agent.runtime.controller import Controller
from agent.targets.virtual_node.controller import VIRTUAL, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.kube.informer import Informer


GONE_SECONDS = 60.0
"""Seconds for which pods of a deleted node are watched; then kube-controller-manager's podgc takes over."""
_CLOSED_SECONDS = 1.0
"""Seconds until a node that schedulers may still use is checked again."""
REASON = "VirtualNode"
"""Reason of the event on a pod that cannot run."""
EVICTION_SECONDS = (1.0, 300.0)
"""First and longest pause between evictions of one controller's pods: a scheduler may bind new ones again."""
_CONTROLLERS = 1000
"""Number of controllers whose pauses are remembered."""


class ForeignPodController(Controller[tuple[str, Key]]):
    """Keys are a node's name and the key of a pod on it."""

    name = "stray-pods"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._local = deps.local
        self._clock = deps.clock
        self._answers = deps.settings.answer_daemon_sets
        self._pods: dict[str, tuple[Informer, Callable[[], None]]] = {}
        self._gone: dict[str, asyncio.TimerHandle] = {}
        """Deleted nodes, with the timers that end the watch of their pods."""
        self._recorder = deps.recorder
        self._reported: dict[tuple[str, Key], str] = {}
        """UIDs of pods with an event."""
        self._pauses: dict[str, tuple[float, Backoff]] = {}
        """Moment at which the next pod may be evicted, by UID of the controller."""
        self._nodes = deps.local.informer(NODES, labels=VIRTUAL)
        self.watch(self._nodes, lambda node: ())
        self._nodes.subscribe(self._node_changed)

    async def reconcile(self, key: tuple[str, Key]) -> float | None:
        """Handle one pod: delete it if it is terminating, report a DaemonSet's as ready, evict or report others."""
        node, pod_key = key
        informer = self._pods[node][0] if node in self._pods else None
        pod = informer.store.get(pod_key) if informer is not None else None
        if informer is None or pod is None:
            self._reported.pop(key, None)
            return None
        if not pod.deleting and node not in self._gone:
            if is_of_a_daemon_set(manifest := pod.decode()):
                await self._answer_for(pod, manifest)
                return None
            return await self._move_off(node, pod, manifest)
        if not pod.deleting and not is_of_a_daemon_set(pod.decode()):
            return None
        with contextlib.suppress(NotFound, Conflict), informer.vanished.noticed(pod_key, pod.uid):
            await self._local.client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace=0)
        return None

    async def _answer_for(self, pod: Object, manifest: dict[str, Any]) -> None:
        patch = daemonpod.patch(manifest, self._clock.now()) if self._answers else {}
        if patch:
            with contextlib.suppress(NotFound):
                await self._local.client.patch_raw(PODS, pod.name, patch, pod.namespace, sub="status")

    async def _move_off(self, name: str, pod: Object, manifest: dict[str, Any]) -> float | None:
        answer, node = misplaced.remedy(manifest), self._nodes.store.get(("", name))
        if answer is Remedy.NONE or node is None:
            return None
        if answer is Remedy.EVICT:
            if not is_closed(node.decode()):
                return _CLOSED_SECONDS
            if (wait := self._eviction_pause(pod)) > 0:
                return wait
        if self._reported.get((name, pod.key)) != pod.uid:
            self._reported[name, pod.key] = pod.uid
            self._recorder.event(manifest, "Warning", REASON, misplaced.message(name, answer))
        if answer is Remedy.EVICT:
            with contextlib.suppress(NotFound, Conflict):
                await self._local.client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace=0)
        return None

    def _eviction_pause(self, pod: Object) -> float:
        """Return the seconds until a pod may be evicted; 0 reserves the eviction."""
        owner, now = pod.controller, asyncio.get_running_loop().time()
        key = owner.uid if owner is not None else pod.uid
        due, backoff = self._pauses.get(key, (0.0, Backoff(*EVICTION_SECONDS)))
        if now < due:
            return due - now
        if now > due + EVICTION_SECONDS[1]:
            backoff.reset()
        if len(self._pauses) >= _CONTROLLERS:
            self._pauses = {each: pause for each, pause in self._pauses.items() if pause[0] > now}
        self._pauses[key] = (now + backoff.next(), backoff)
        return 0.0

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and new.name in self._gone:
            self._gone.pop(new.name).cancel()
        elif new is not None and new.name not in self._pods and target_of(new):
            self._follow(new.name)
        elif new is None and old is not None and old.name in self._pods:
            self._gone[old.name] = asyncio.get_running_loop().call_later(GONE_SECONDS, self._forget, old.name)
            for pod in self._pods[old.name][0].store:
                self.queue.add((old.name, pod.key))

    def _forget(self, node: str) -> None:
        del self._gone[node]
        informer, stop = self._pods.pop(node)
        stop()
        self._local.informers.drop(informer)

    def _follow(self, node: str) -> None:
        fields = f"spec.nodeName={node},{OTHER_PODS}"
        informer = self._local.informer(PODS, fields=fields)
        stop = self.watch(informer, lambda pod: [(node, pod.key)], required=False)
        self._pods[node] = (informer, stop)
