"""Summary: publish total and free capacity of this cluster's nodes, for its virtual nodes in sources.

Watches  nodes that are not virtual, pods on them (at level of detail `full`, if the agent may), the ClusterSummary
         `singleton`, ClusterProperties and ClusterClaims if served. If enabled, it also polls metrics.k8s.io for the
         usage of nodes.
Writes   the ClusterSummary, at most once a second and only for relevant changes (`knownnodes.steady` ignores others);
         an Event if there are more claims than can be published.
"""

import time
from typing import Any

from agent import __version__
from agent.api.kinds import CLUSTER_SUMMARIES, NODES
from agent.api.names import PROVIDER_KEY, PROVIDER_VALUE, SUMMARY_NAME
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import GIVE_UP, GRACE_PERIOD
from agent.kube.store import Object
from agent.model.clusterclaims import LIMIT
from agent.model.knownnodes import KnownNodes
from agent.model.summary import Survey, summary, survey_of
from agent.runtime.controller import Controller
from agent.targets.summary.decide import decide, substance
from agent.targets.summary.measured import Measured
from agent.targets.summary.properties import Properties
from agent.targets.summary.usage import Usage

PAUSE_SECONDS = 1.0
_PAUSE_FACTOR = 20.0
"""Pause after a computation, as a multiple of its duration: thousands of nodes cost at most 5 % of a core."""
_DISCOVERY = "discovery"
_UNREAD_SECONDS = 0.1
_UNREAD_LIMIT_SECONDS = 5.0
"""Longest delay of the first summary because of properties and pods that have not been read."""


class SummaryController(Controller[str]):
    """Keys are the summary's name, and one for the discovery of served properties."""

    name = "summary"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._client = deps.local.client
        self._settings = deps.settings
        self._cluster_uid = deps.cluster_uid
        self._detail = deps.settings.summary_detail
        self._started = time.monotonic()
        self._next_look = self._started
        self._discovered = False
        self._recorder = deps.recorder
        self._claims = 0
        self._known = KnownNodes()
        self._unread = set[str]()
        self._survey: Survey | None = None
        self._usage = Usage(deps.local, self._pods_changed)
        self._properties = Properties(deps.local, deps.settings.cluster_property, self._changed)
        self._nodes = deps.local.informer(NODES, labels=f"{PROVIDER_KEY}!={PROVIDER_VALUE}")
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={SUMMARY_NAME}")
        self._measured = Measured(deps.local, deps.settings, self._nodes, self._changed)
        self.watch(self._nodes, lambda node: ())
        self.watch(self._summaries, lambda summary: [SUMMARY_NAME])
        self._nodes.subscribe(self._node_changed)
        self.queue.add(_DISCOVERY)

    async def reconcile(self, key: str) -> float | None:
        """Write the summary if it differs from the state of nodes and pods."""
        if key == _DISCOVERY:
            await self._properties.discover()
            if self._detail == "full":
                await self._usage.discover()
            self._discovered = True
            self._changed()
            return self._settings.discovery_interval
        if not self._discovered:
            return None
        settled = self._properties.settled and self._usage.settled
        if not settled and time.monotonic() - self._started < _UNREAD_LIMIT_SECONDS:
            return _UNREAD_SECONDS
        wait = self._next_look - time.monotonic()
        if wait > 0:
            return wait
        current = self._summaries.store.get(("", key))
        body = decide(self._wanted(), current.decode() if current else None, gateway=self._settings.gateway)
        if body is None:
            return None
        if current is None:
            raw = await self._client.create_raw(CLUSTER_SUMMARIES, body)
        else:
            raw = await self._client.patch_raw(CLUSTER_SUMMARIES, key, body)
        self._summaries.absorb(raw)
        return None

    def _wanted(self) -> dict[str, Any]:
        started = time.monotonic()
        surveyed = self._surveyed()
        usage, claims = self._usage.read(), self._properties.claims()
        self._warn(claims.found)
        wanted = summary(
            surveyed,
            version=__version__,
            answers=f"{GIVE_UP},{GRACE_PERIOD}",
            cluster_uid=self._cluster_uid,
            properties=self._properties.read(),
            claims=claims.text,
            taken=usage.taken if usage is not None else None,
            delegates=usage.delegates if usage is not None else None,
            used=self._measured.read(),
            agent=self._settings.told_address,
        )
        now = time.monotonic()
        self._next_look = now + max(PAUSE_SECONDS, _PAUSE_FACTOR * (now - started))
        return wanted

    def _warn(self, claims: int) -> None:
        """Emit an event once for each excessive number of claims, with the text of Open Cluster Management."""
        if claims > LIMIT and claims != self._claims:
            message = (
                f"{claims} cluster claims are found. It exceeds the max number of custom cluster claims ({LIMIT})."
                f" {claims - LIMIT} cluster claims are discarded."
            )
            obj = self._summaries.store.get(("", SUMMARY_NAME))
            head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
            about = obj.decode() if obj is not None else {**head, "metadata": {"name": SUMMARY_NAME}}
            self._recorder.event(about, "Warning", "CustomClusterClaimsTruncated", message)
        self._claims = claims

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or substance(old.raw) != substance(new.raw):
            self._unread.update(node.name for node in (old, new) if node is not None)
            self._changed()

    def _surveyed(self) -> Survey:
        while self._unread:
            name = next(iter(self._unread))
            if (node := self._nodes.store.get(("", name))) is not None:
                self._known.put(node.decode())
            else:
                self._known.remove(name)
            self._unread.remove(name)
            self._survey = None
        if self._survey is None:
            self._survey = survey_of(self._known, self._detail)
        return self._survey

    def _pods_changed(self, node: str) -> None:
        """Enqueue the summary for its next computation: a burst changes hundreds of pods a second."""
        if self._nodes.store.get(("", node)) is not None:
            self.queue.add_after(SUMMARY_NAME, self._next_look - time.monotonic())

    def _changed(self) -> None:
        self.queue.add(SUMMARY_NAME)
