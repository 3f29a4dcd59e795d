"""Cordoning a virtual node and evicting its pods, like `kubectl drain`, until all of them have been deleted."""

import asyncio
from collections.abc import Callable
from typing import Any

from agent.api.kinds import NODES, PODS
from agent.cli.draining.plan import Options, Plan, Pod, plan
from agent.cli.options import Failed
from agent.kube.client import Client, encode
from agent.kube.errors import NotFound, StatusError, TooManyRequests
from agent.model.abridged import abridged

Raw = dict[str, Any]

AGAIN_SECONDS = 5.0
"""Pause before a retry of an eviction that a PodDisruptionBudget refused, as in kubectl."""
_POLL_SECONDS = 0.5
_AT_ONCE = 16
_SHOWN = 5


class Drainer:
    """Drains one virtual node. Calls `say` with every step."""

    def __init__(self, client: Client, node: str, options: Options, say: Callable[[str], None] = print) -> None:
        self._client = client
        self._node = node
        self._options = options
        self._say = say
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._blocked: dict[str, str] = {}
        """Message of the PodDisruptionBudget that blocks the eviction, by UID of the pod."""

    async def cordon(self, *, wanted: bool = True) -> bool:
        """Cordon the node, or uncordon it if not `wanted`. Return True if that was a change."""
        node = await self._client.get(NODES, self._node)
        if bool((node.get("spec") or {}).get("unschedulable")) == wanted:
            return False
        await self._client.patch(NODES, self._node, {"spec": {"unschedulable": True if wanted else None}})
        return True

    async def check(self) -> Plan:
        """Return the plan of a drain. Raises Failed if the options do not cover some pods."""
        found = plan(await self._pods(), self._options)
        if found.refused:
            raise Failed("in the way are " + "; ".join(f"{why}: {_some(pods)}" for why, pods in found.refused.items()))
        return found

    async def run(self, seconds: float, grace: int | None = None) -> int:
        """Cordon the node, evict its pods, wait until they have been deleted, and return their number.

        Raises Failed without any change if the options do not cover some pods, or else after `seconds`; KubeError.
        """
        await self.check()
        if await self.cordon():
            self._say(f"{self._node} cordoned")
        # This list also contains pods that were bound before the scheduler had observed the cordon.
        found = await self.check()
        for pod in found.stay:
            self._say(f"{pod} stays: it belongs to a DaemonSet")
        try:
            async with asyncio.timeout(seconds):
                return await self._empty(found, grace)
        except TimeoutError:
            raise Failed(await self._left(seconds)) from None

    async def preview(self, grace: int | None = None) -> Plan:
        """Ask the API server, and its disruption budgets, about every eviction. Nothing is changed."""
        found = await self.check()
        refusals = await asyncio.gather(*(self._ask(pod, grace) for pod in found.evict))
        for pod, refusal in zip(found.evict, refusals, strict=True):
            self._say(f"{pod} would wait: {refusal}" if refusal else f"{pod} would be evicted")
        for pod in found.stay:
            self._say(f"{pod} would stay: it belongs to a DaemonSet")
        return found

    async def _ask(self, pod: Pod, grace: int | None) -> str:
        async with self._limit:
            return "" if pod.deleting else await self._evict(pod, grace, dry_run=True)

    async def _empty(self, found: Plan, grace: int | None) -> int:
        pods = {pod.uid: pod for pod in found.evict}
        total = len(pods)
        evictions = [asyncio.ensure_future(self._insist(pod, grace)) for pod in found.evict if not pod.deleting]
        try:
            while pods:
                for eviction in evictions:
                    if eviction.done():
                        # An exception of an eviction ends the drain.
                        eviction.result()
                there = {raw["metadata"]["uid"] for raw in await self._pods()}
                for uid in [uid for uid in pods if uid not in there]:
                    pod = pods.pop(uid)
                    self._blocked.pop(uid, None)
                    self._say(f"{pod} is gone ({total - len(pods)} of {total})")
                if pods:
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            for eviction in evictions:
                eviction.cancel()
            await asyncio.gather(*evictions, return_exceptions=True)
        return total

    async def _insist(self, pod: Pod, grace: int | None) -> None:
        """Evict a pod as soon as its disruption budgets let us."""
        while True:
            async with self._limit:
                refusal = await self._evict(pod, grace)
            if not refusal:
                self._blocked.pop(pod.uid, None)
                return
            if self._blocked.get(pod.uid) != refusal:
                self._say(f"{pod} waits: {refusal}")
            self._blocked[pod.uid] = refusal
            await asyncio.sleep(AGAIN_SECONDS)

    async def _evict(self, pod: Pod, grace: int | None, *, dry_run: bool = False) -> str:
        """Return why a PodDisruptionBudget refuses an eviction, empty if the pod is evicted. Raises KubeError."""
        options: Raw = {"preconditions": {"uid": pod.uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": options,
        }
        path = PODS.path(pod.namespace, pod.name, "eviction")
        try:
            await self._client.session.request("POST", path, body=encode(body), resource="pods/eviction")
        except TooManyRequests as error:
            return error.message
        except NotFound:
            pass
        except StatusError as error:
            # 409: the UID differs, so another pod has this name and the evicted one no longer exists.
            if error.status != 409:
                raise
        return ""

    async def _pods(self) -> list[Raw]:
        return await self._client.list(PODS, fields=f"spec.nodeName={self._node}")

    async def _left(self, seconds: float) -> str:
        left = plan(await self._pods(), self._options).evict
        reasons = sorted({self._blocked[pod.uid] for pod in left if pod.uid in self._blocked})
        why = f" ({'; '.join(reasons)})" if reasons else ""
        are = "is" if len(left) == 1 else "are"
        return (
            f"after {seconds:g} s {_some(left)} {are} still there{why}. {self._node} stays cordoned: drain again to go"
            " on, or undrain"
        )


def _some(pods: tuple[Pod, ...]) -> str:
    return abridged([str(pod) for pod in pods], _SHOWN)
