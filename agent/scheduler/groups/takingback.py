"""Deletes members of a group that starts again as a whole, so that their controllers make them anew."""

from agent.api.conditions import set_condition
from agent.api.kinds import PODS
from agent.clusters.deps import Deps
from agent.kube.errors import NotFound
from agent.kube.store import Object

DISRUPTED = "DisruptionTarget"
REASON = "DeletionByGroupRestart"


class TakingBack:
    """Writes a condition on the pods that go, and deletes them."""

    def __init__(self, deps: Deps) -> None:
        self._client = deps.local.client
        self._recorder = deps.recorder
        self._clock = deps.clock

    async def take_back(self, pod: Object, why: str) -> None:
        """Delete a pod as it was seen, and say why on it: failure policies of Jobs may leave it out of account.

        Raises KubeError, Conflict for a pod that has changed.
        """
        raw, identity = pod.decode(), {"uid": pod.uid, "resourceVersion": pod.version}
        told = set_condition([], DISRUPTED, "True", REASON, why, self._clock.now())
        patch = {"metadata": identity, "status": {"conditions": told}}
        try:
            fresh = Object(
                PODS,
                await self._client.patch_raw(PODS, pod.name, patch, pod.namespace, sub="status", style="strategic"),
            )
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, version=fresh.version)
        except NotFound:
            return
        self._recorder.event(raw, "Warning", "GroupRestart", why)
