"""Over limit: reports that the limits of a target are lower than the requests of its pods. None is evicted for that.

Watches  Targets and ClusterTargets, proxy pods while some Target is beyond its limits.
Writes   the condition OverLimit of Targets, once they were over their limits.
Absent target: all pods that are bound to its virtual node count.
"""

import time
from collections.abc import Iterable

from agent.api import names
from agent.api.names import lifecycle
from agent.clusters.deps import Deps
from agent.clusters.target_condition import TargetCondition, Words
from agent.kube.store import Key, Object
from agent.model.requests import Amounts, limits_of, written
from agent.runtime.controller import Controller

PAUSE_SECONDS = 5.0
"""Seconds between two writes for one target: many of its pods may change at once."""
_WHAT_FOLLOWS = "none of them is evicted for that, and no other goes there"
_WITHIN = Words("False", lifecycle.IN_BOUNDS, "pods of this cluster request no more there than its limits allow")


class OverLimitController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "overlimit"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._proxies = deps.proxies
        self._held = deps.held_requests
        self._condition = TargetCondition(deps, lifecycle.OVER_LIMIT)
        self._beyond: dict[str, Key] = {}
        """Targets that are beyond their limits, by virtual node."""
        self._looked_at: dict[Key, float] = {}
        for informer in self._condition.objects.informers:
            self.watch(informer, lambda target: [target.key])
        self.watch(self._proxies.informer, self._there)

    async def reconcile(self, key: Key) -> float | None:
        """Report whether one target is over its limits. Only reduced limits cause that, since new pods respect them."""
        obj, node = self._condition.objects.get(key), names.virtual_node(*key)
        limits, over = limits_of(obj.decode()) if obj is not None else {}, ""
        if limits:
            wait = self._looked_at.get(key, -PAUSE_SECONDS) + PAUSE_SECONDS - time.monotonic()
            if wait > 0:
                return wait
            self._looked_at[key] = time.monotonic()
            await self._held.count()
            over = beyond(limits, self._held.of(node))
        else:
            self._looked_at.pop(key, None)
        if over:
            self._beyond[node], words = key, Words("True", lifecycle.OVER_LIMIT, f"{over}: {_WHAT_FOLLOWS}")
        else:
            self._beyond.pop(node, None)
            words = _WITHIN
        if obj is not None and (over or self._condition.status(obj)):
            await self._condition.write(obj, words)
        return None

    def _there(self, pod: Object) -> Iterable[Key]:
        key = self._beyond.get(pod.node_name) if self._beyond else None
        return [key] if key is not None else ()


def beyond(limits: Amounts, held: Amounts) -> str:
    """Return a text about the limits that the requests of pods exceed; empty if none."""
    over = (
        f"pods of this cluster request {written(name, held.get(name, 0))} {name} there, of {written(name, limit)} that"
        " its limits allow"
        for name, limit in sorted(limits.items())
        if held.get(name, 0) > limit
    )
    return "; ".join(over)
