"""Unready pods: proxy pods of a target that does not answer get no traffic, as pods of a silent node get none.

kube-controller-manager/nodelifecycle sets Ready of pods on a silent node to False. Virtual nodes stay Ready, so that no
pod is evicted from them; the agent sets the condition itself.

Watches  states of targets, proxy pods, Services, all here.
Writes   the condition Ready of proxy pods that native Services select, `endpoints_grace` after the target went silent.
Absent target: this is about nothing else. Once the target is back, feedback copies the condition of the delegate again.
"""

import contextlib

from agent.api.conditions import is_true, timestamp
from agent.api.kinds import PODS
from agent.base.turns import in_turns
from agent.clusters.deps import Deps
from agent.clusters.selecting import SelectingServices
from agent.clusters.target import Target
from agent.drivers.sharing import Sharing
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Object
from agent.model.podstate import ENDED
from agent.model.service import is_native
from agent.runtime.controller import Controller

REASON = "TargetUnreachable"
_AGAIN_SECONDS = 10.0
"""While a target is silent, pods may become bound to it or Services may begin to select them."""


class UnreadyPodsRoom(Controller[str]):
    """Keys are virtual nodes."""

    name = "unreadypods"
    workers = 8

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._sharing = Sharing(deps)
        self._selecting = SelectingServices(deps.local)
        self._proxies = deps.proxies.informer
        self.watch(self._selecting.informer, lambda service: ())
        self.watch(self._proxies, lambda pod: ())
        deps.targets.on_change(self._target_changed)

    def _target_changed(self, target: Target) -> None:
        if self._sharing.silent_in(target.node_name) is not None:
            self.queue.add(target.node_name)

    async def reconcile(self, key: str) -> float | None:
        """Mark the pods of one target, if it has been silent for long."""
        left = self._sharing.silent_in(key)
        if left:
            return left
        async for pod in in_turns(tuple(self._deps.proxies.bound_to(key))):
            if self._sharing.silent_in(key) is None:
                return None
            if self._is_served(pod):
                await self._mark(pod)
        return None if left is None else _AGAIN_SECONDS

    def _is_served(self, pod: Object) -> bool:
        """Return True if a native Service sends traffic to a pod."""
        if pod.deleting or pod.phase in ENDED or b'"Ready"' not in pod.raw:
            return False
        if not is_true((pod.decode().get("status") or {}).get("conditions"), "Ready"):
            return False
        marks = self._deps.unwritten_marks
        return any(is_native(marks.annotations(each)) for each in self._selecting.of(pod.namespace, pod.labels))

    async def _mark(self, pod: Object) -> None:
        now = timestamp(self._deps.clock.now())
        message = "the target does not answer: no Service sends traffic to this pod until the target is back"
        ready = {"type": "Ready", "status": "False", "reason": REASON, "message": message, "lastTransitionTime": now}
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [ready]}}
        client = self._deps.local.client
        with contextlib.suppress(NotFound, Conflict):
            raw = await client.patch_raw(PODS, pod.name, body, pod.namespace, sub="status", style="strategic")
            self._proxies.absorb(raw)
