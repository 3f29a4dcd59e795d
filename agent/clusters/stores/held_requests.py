"""Requests of proxy pods in targets with limits, kept up to date by events."""

import asyncio
from collections import Counter

from agent.api import names
from agent.api.kinds import TARGET_KINDS
from agent.base.yielding import in_turns
from agent.clusters.cluster import Cluster
from agent.clusters.stores.proxies import ProxyPods
from agent.kube.store import Key, Object
from agent.model.podstate import ENDED
from agent.model.requests import Amounts, held_by, limits_of

_NONE: Amounts = {}


class HeldRequests:
    """Sums of the requests of proxy pods, by virtual node, for Targets with limits.

    A change of a pod costs one decoding of that pod, and only in targets with limits.
    """

    def __init__(self, local: Cluster, proxies: ProxyPods) -> None:
        self._proxies = proxies
        self._limits: dict[str, Amounts] = {}
        self._totals: dict[str, Counter[str]] = {}
        self._pods: dict[str, dict[Key, Amounts]] = {}
        self._node_of: dict[Key, str] = {}
        self._uncounted: dict[str, None] = {}
        self._counting = asyncio.Lock()
        proxies.informer.subscribe(self._pod_changed)
        for informer in local.either(TARGET_KINDS).informers:
            informer.subscribe(self._target_changed)

    def limits(self, node: str) -> Amounts:
        """Return the limits of the Target of a virtual node; empty without limits."""
        return self._limits.get(node, _NONE)

    def of(self, node: str) -> Amounts:
        """Return the sum of requests of pods on a virtual node with limits. Call `count` before."""
        return self._totals.get(node, _NONE)

    async def count(self) -> None:
        """Count the pods of Targets whose limits are new, in turns of the event loop."""
        async with self._counting:
            while self._uncounted:
                node = next(iter(self._uncounted))
                # Limits that are removed and set again in the meantime have all pods counted again.
                del self._uncounted[node]
                try:
                    async for pod in in_turns(self._proxies.bound_to(node)):
                        # The pod may have changed in the meantime.
                        self._note(pod.key, self._proxies.informer.store.get(pod.key))
                except BaseException:
                    self._uncounted[node] = None
                    raise

    def _target_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        node = names.virtual_node(*obj.key)
        limits = limits_of(new.decode()) if new is not None else {}
        if limits and node not in self._limits:
            self._uncounted[node] = None
        if limits:
            self._limits[node] = limits
        elif self._limits.pop(node, None):
            self._uncounted.pop(node, None)
            self._totals.pop(node, None)
            for key in self._pods.pop(node, ()):
                del self._node_of[key]

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        if self._limits and (pod.key in self._node_of or pod.node_name in self._limits):
            self._note(pod.key, new)

    def _note(self, key: Key, pod: Object | None) -> None:
        before = self._node_of.pop(key, "")
        if before:
            self._totals[before].subtract(self._pods[before].pop(key))
        if pod is None or pod.phase in ENDED or pod.node_name not in self._limits:
            return
        held = held_by((pod.decode(),))
        node = self._node_of[key] = pod.node_name
        self._pods.setdefault(node, {})[key] = held
        self._totals.setdefault(node, Counter()).update(held)
