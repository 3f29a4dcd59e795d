"""Unplaced pods: bind DaemonSets' pods to virtual nodes, which are full for other schedulers (`virtualnode.amounts`).

Watches  virtual nodes; while one exists, pods without a node and with another scheduler than the agent's.
Writes   the binding of a DaemonSet's pod to its virtual node, once the pod's scheduler has reported that it does not
         fit. The pod does not run there and uses no capacity.
"""

import contextlib
from typing import TYPE_CHECKING

from agent.api.kinds import NODES, PODS
from agent.clusters.deps import Deps
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Key, Object, metadata_only
from agent.model.daemonpod import unplaced
from agent.model.podstate import OTHER_PODS
from agent.model.proxypod import is_of_a_daemon_set
from agent.runtime.controller import Controller
from agent.targets.virtual_node.controller import VIRTUAL, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.kube.informer import Informer

_WAITING = f"spec.nodeName=,{OTHER_PODS}"


class UnplacedPodController(Controller[Key]):
    """Keys are those of pods."""

    name = "unplaced-pods"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._local = deps.local
        self._pods: Informer | None = None
        self._stop: Callable[[], None] = lambda: None
        self._nodes = deps.local.informer(NODES, labels=VIRTUAL)
        self.watch(self._nodes, lambda node: ())
        self._nodes.subscribe(self._node_changed)

    async def reconcile(self, key: Key) -> float | None:
        """Bind one pod that its scheduler cannot place."""
        pod = self._pods.store.get(key) if self._pods is not None else None
        if pod is None or pod.deleting or pod.gated:
            return None
        manifest = pod.decode()
        name = unplaced(manifest) if is_of_a_daemon_set(manifest) else ""
        node = self._nodes.store.get(("", name)) if name else None
        if node is None or node.deleting or not target_of(node):
            return None
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": NODES.name, "name": name},
        }
        with contextlib.suppress(NotFound, Conflict):
            await self._local.client.create_raw(PODS, binding, sub="binding")
        return None

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if self._pods is None and new is not None and target_of(new):
            self._pods = self._local.informer(PODS, fields=_WAITING, reduce=reduced)
            self._stop = self.watch(self._pods, _of_a_daemon_set, required=False)
        elif self._pods is not None and new is None and not len(self._nodes.store):
            self._stop()
            self._local.informers.drop(self._pods)
            self._pods = None


def reduced(pod: bytes) -> bytes:
    """Reduce pods of other owners to a minimum of metadata, since thousands of them may be pending."""
    return pod if b'"DaemonSet"' in pod else metadata_only(pod)


def _of_a_daemon_set(pod: Object) -> tuple[Key, ...]:
    owner = pod.controller
    return (pod.key,) if owner is not None and owner.kind == "DaemonSet" else ()
