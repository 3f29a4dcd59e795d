"""Unready pods: proxy pods of a target that does not answer get no traffic, as pods of a silent node get none.

kube-controller-manager/nodelifecycle sets Ready of pods on a silent node to False. Virtual nodes stay Ready, so
that no pod is evicted from them; the agent sets the condition itself. If a silent target answers again and
refuses the agent, the agent cannot read its pods, and restores the condition that they had before. The
same holds for its endpoints in the EndpointSlices of other clusters.

A terminating proxy pod waits for a silent target, and so does its namespace if that is being deleted. The
condition gives the reason, since the API server refuses new events in such a namespace.

Watches  states of targets; proxy pods and Services in the source.
Writes   the condition Ready of proxy pods that native Services select or that are terminating,
         `endpoints_grace` after the target went silent.
Absent target: this is about nothing else. Once the target is back, feedback copies the condition of the
delegate again.
"""

import contextlib
from collections.abc import Mapping

from agent.api import names
from agent.api.conditions import find_condition, is_true, timestamp
from agent.api.kinds import PODS
from agent.api.names import lifecycle
from agent.base.yielding import in_turns
from agent.clusters.deps import Deps
from agent.clusters.health.record import refuses
from agent.clusters.stores.selecting_services import SelectingServices
from agent.clusters.target import Target
from agent.drivers.sharing import Sharing
from agent.kube.errors import Conflict, NotFound
from agent.kube.store import Object
from agent.model import podstate
from agent.model.podstate import ENDED
from agent.model.service import is_native
from agent.runtime.controller import Controller

REASON = "TargetUnreachable"
UNSERVED = "the target does not answer: no Service sends traffic to this pod until the target is back"
WAITS = (
    "the target does not answer, so that the delegate may still run there: this pod is removed once the target answers"
    " and the delegate has ended, or once its Target or ClusterTarget is annotated"
    f" {names.SHORT_PREFIX}{lifecycle.LOST}=true, which certifies that nothing runs there any more"
)
_AGAIN_SECONDS = 10.0
"""Seconds until a re-check: pods may be bound to a silent target or be deleted, or Services may begin to select
them.
"""


class UnreadyPodsController(Controller[str]):
    """Reconciles the pods of one virtual node."""

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
        if not target.ready:
            self.queue.add(target.node_name)

    async def reconcile(self, key: str) -> float | None:
        """Mark the pods of one target if it has been silent for long; remove the marks if it refuses the agent."""
        if self._is_refused(key):
            await self._restore_all(key)
            return _AGAIN_SECONDS
        left = self._sharing.silent_in(key)
        if left:
            return left
        async for pod in in_turns(tuple(self._deps.proxies.bound_to(key))):
            if self._sharing.silent_in(key) is None:
                return None
            if _waits(pod):
                await self._mark(pod, WAITS)
            elif self._is_served(pod):
                await self._mark(pod, UNSERVED)
        return None if left is None else _AGAIN_SECONDS

    def _is_refused(self, node: str) -> bool:
        target = self._deps.targets.by_node(node)
        return target is not None and refuses(target.record)

    async def _restore_all(self, node: str) -> None:
        """Set Ready of marked pods to True: only ready pods are marked."""
        async for pod in in_turns(tuple(self._deps.proxies.bound_to(node))):
            if not self._is_refused(node):
                return
            if _is_marked(pod):
                await self._write(pod, {"status": "True", "reason": None, "message": None})

    def _is_served(self, pod: Object) -> bool:
        """Return True if a native Service routes traffic to a pod."""
        if pod.deleting or pod.phase in ENDED or b'"Ready"' not in pod.raw:
            return False
        if not is_true((pod.decode().get("status") or {}).get("conditions"), "Ready"):
            return False
        marks = self._deps.unwritten_marks
        return any(is_native(marks.annotations(each)) for each in self._selecting.of(pod.namespace, pod.labels))

    async def _mark(self, pod: Object, message: str) -> None:
        await self._write(pod, {"status": "False", "reason": REASON, "message": message})

    async def _write(self, pod: Object, condition: Mapping[str, str | None]) -> None:
        """Set Ready of exactly the pod that was judged; feedback may have changed it since."""
        ready = {"type": "Ready", **condition, "lastTransitionTime": timestamp(self._deps.clock.now())}
        metadata = {"uid": pod.uid, "resourceVersion": pod.version}
        body = {"metadata": metadata, "status": {"conditions": [ready]}}
        client = self._deps.local.client
        with contextlib.suppress(NotFound, Conflict):
            raw = await client.patch_raw(PODS, pod.name, body, pod.namespace, sub="status", style="strategic")
            self._proxies.absorb(raw)


def _waits(pod: Object) -> bool:
    """Return True if a pod is terminating and its condition Ready lacks the reason."""
    if not pod.deleting or not podstate.target_finalizers(pod.finalizers):
        return False
    ready = find_condition((pod.decode().get("status") or {}).get("conditions"), "Ready") or {}
    return ready.get("message") != WAITS


def _is_marked(pod: Object) -> bool:
    if pod.deleting or pod.phase in ENDED or REASON.encode() not in pod.raw:
        return False
    ready = find_condition((pod.decode().get("status") or {}).get("conditions"), "Ready") or {}
    return bool(ready.get("status") == "False" and ready.get("reason") == REASON)
