"""Stray pods: those that landed on a virtual node without being proxy pods, DaemonSets' above all.

Watches  pods of each virtual node whose scheduler is not ours.
Writes   the status of those of DaemonSets, unless a setting says otherwise: they count as ready, and nothing runs.
         Deletes them once somebody has asked for it: no kubelet will ever confirm that they have stopped, and they
         have never run (ruling 5). Once their node is gone, it deletes those of DaemonSets unasked, for a while also
         those that were bound at that very moment: nobody else would end them for a minute.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from agent.api.kinds import NODES, PODS
from agent.clusters.deps import Deps
from agent.controllers.virtualnode.controller import VIRTUAL, target_of
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Key, Object
from agent.model import daemonpod
from agent.model.podstate import OTHER_PODS
from agent.model.proxypod import is_of_a_daemon_set
from agent.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.kube.informer import Informer


GONE_SECONDS = 60.0
"""For how long pods of a node that is gone are looked for; Kubernetes' own garbage collector of pods takes over."""


class ForeignPodRoom(Controller[tuple[str, Key]]):
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
        """Nodes that are no more, and when their pods are forgotten."""
        nodes = deps.local.informer(NODES, labels=VIRTUAL)
        self.watch(nodes, lambda node: ())
        nodes.subscribe(self._node_changed)

    async def reconcile(self, key: tuple[str, Key]) -> float | None:
        """Delete one pod if it is terminating; answer for it if it is a DaemonSet's."""
        node, pod_key = key
        informer = self._pods[node][0] if node in self._pods else None
        pod = informer.store.get(pod_key) if informer is not None else None
        if informer is None or pod is None:
            return None
        if not pod.deleting and node not in self._gone:
            if self._answers:
                await self._answer_for(pod)
            return None
        if not pod.deleting and not is_of_a_daemon_set(pod.decode()):
            return None
        with contextlib.suppress(NotFound, Conflict), informer.vanished.noticed(pod_key, pod.uid):
            await self._local.client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace=0)
        return None

    async def _answer_for(self, pod: Object) -> None:
        manifest = pod.decode()
        if not is_of_a_daemon_set(manifest):
            return
        patch = daemonpod.patch(manifest, self._clock.now())
        if patch:
            with contextlib.suppress(NotFound):
                await self._local.client.patch_raw(PODS, pod.name, patch, pod.namespace, sub="status")

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
