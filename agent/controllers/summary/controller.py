"""Summary: write what the nodes of this cluster have, for the virtual nodes that stand for it elsewhere.

Watches  nodes that are not virtual, the ClusterSummary `singleton`.
Writes   the ClusterSummary, at most once a second and only when it changes.
"""

import time

from agent.api.kinds import CLUSTER_SUMMARIES, NODES
from agent.api.names import PROVIDER_KEY, PROVIDER_VALUE, SUMMARY_NAME
from agent.clusters.deps import Deps
from agent.controllers.summary.decide import decide, substance
from agent.kube.store import Object
from agent.runtime.controller import Controller

PAUSE_SECONDS = 1.0


class SummaryRoom(Controller[str]):
    """There is one key, the summary's name."""

    name = "summary"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._client = deps.local.client
        self._last_write = -PAUSE_SECONDS
        self._nodes = deps.local.informer(NODES, labels=f"{PROVIDER_KEY}!={PROVIDER_VALUE}")
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={SUMMARY_NAME}")
        self.watch(self._nodes, lambda node: ())
        self.watch(self._summaries, lambda summary: [SUMMARY_NAME])
        self._nodes.subscribe(self._node_changed)
        self.queue.add(SUMMARY_NAME)

    async def reconcile(self, key: str) -> float | None:
        """Write the summary if it is not what the nodes say."""
        wait = self._last_write + PAUSE_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        current = self._summaries.store.get(("", key))
        body = decide([node.decode() for node in self._nodes.store], current.decode() if current else None)
        if body is None:
            return None
        self._last_write = time.monotonic()
        if current is None:
            raw = await self._client.create_raw(CLUSTER_SUMMARIES, body)
        else:
            raw = await self._client.patch_raw(CLUSTER_SUMMARIES, key, body)
        self._summaries.absorb(raw)
        return None

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or substance(old.raw) != substance(new.raw):
            self.queue.add(SUMMARY_NAME)
