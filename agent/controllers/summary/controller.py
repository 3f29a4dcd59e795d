"""Summary: write what the nodes of this cluster have, for the virtual nodes that stand for it elsewhere.

Watches  nodes that are not virtual, the ClusterSummary `singleton`, ClusterProperties and ClusterClaims where served.
Writes   the ClusterSummary, at most once a second and only when something matters: see `steady` for what does not.
"""

import time

from agent import __version__
from agent.api.kinds import CLUSTER_SUMMARIES, NODES
from agent.api.names import PROVIDER_KEY, PROVIDER_VALUE, SUMMARY_NAME
from agent.clusters.deps import Deps
from agent.controllers.summary.decide import Amounts, decide, substance
from agent.controllers.summary.properties import Properties
from agent.kube.store import Object
from agent.model.summary import summarise, summary_detail
from agent.runtime.controller import Controller

PAUSE_SECONDS = 1.0
_DISCOVERY = "discovery"
_UNREAD_SECONDS = 0.1
_UNREAD_LIMIT_SECONDS = 5.0
"""Properties that cannot be read hold back the summary for no longer than this."""


class SummaryRoom(Controller[str]):
    """Keys are the summary's name, and one for finding out which properties are served."""

    name = "summary"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._client = deps.local.client
        self._settings = deps.settings
        self._detail = summary_detail(deps.settings.summary_detail)
        self._last_write = -PAUSE_SECONDS
        self._started = time.monotonic()
        self._discovered = False
        self._amounts = Amounts()
        self._properties = Properties(deps.local, deps.settings.cluster_property, self._changed)
        self._nodes = deps.local.informer(NODES, labels=f"{PROVIDER_KEY}!={PROVIDER_VALUE}")
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={SUMMARY_NAME}")
        self.watch(self._nodes, lambda node: ())
        self.watch(self._summaries, lambda summary: [SUMMARY_NAME])
        self._nodes.subscribe(self._node_changed)
        self.queue.add(_DISCOVERY)

    async def reconcile(self, key: str) -> float | None:
        """Write the summary if it is not what the nodes say."""
        if key == _DISCOVERY:
            await self._properties.discover()
            self._discovered = True
            self._changed()
            return self._settings.discovery_interval
        if not self._discovered:
            return None
        if not self._properties.settled and time.monotonic() - self._started < _UNREAD_LIMIT_SECONDS:
            return _UNREAD_SECONDS
        wait = self._last_write + PAUSE_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        current = self._summaries.store.get(("", key))
        wanted = summarise(
            self._amounts.settle(node.decode() for node in self._nodes.store),
            detail=self._detail,
            version=__version__,
            properties=self._properties.read(),
        )
        body = decide(wanted, current.decode() if current else None)
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
            self._changed()

    def _changed(self) -> None:
        self.queue.add(SUMMARY_NAME)
