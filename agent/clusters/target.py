"""One target as a state machine: connecting, ready, lost and back, with a public health record."""

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.api import names
from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, Kind
from agent.base.clock import Clock
from agent.base.events import set_within
from agent.clusters.cluster import Cluster
from agent.clusters.health.agent_health import AgentRecord, AgentState
from agent.clusters.health.agent_monitor import AgentMonitor
from agent.clusters.health.latency_monitor import LatencyMonitor
from agent.clusters.health.probing import Probing
from agent.clusters.health.record import Record, State, classify, is_silence, unread
from agent.clusters.health.refusal_backoff import RefusalBackoff
from agent.clusters.health.store_freshness import StoreFreshness
from agent.clusters.identity import Identity
from agent.kube.config import Connection
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.reading import Reduce
from agent.kube.store import Key, Object
from agent.model.podranges import ANYWHERE, PodRanges

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["Probing", "Record", "State", "Target", "parent_of"]

log = logging.getLogger(__name__)

SUMMARY_FIELDS = f"metadata.name={names.SUMMARY_NAME}"
PROBE = {"fieldSelector": "metadata.name=flotilla-probe", "resourceVersion": "0"}
"""Parameters of a probe, which matches no PodChaperon. API servers answer it from their cache and ignore `limit`."""
_SLOW_SECONDS = 1.0
"""Seconds between probes of a slow target: few pods are sent to it, so only probes can show that it is prompt again."""


class Target:
    """Cluster that runs delegates, as a Target (or, with an empty namespace, a ClusterTarget) names it.

    Chaperons are watched from the start. `ready` means: reachable, authorized, and the chaperons read. While
    the target is not ready, an object missing from its stores may exist.
    """

    def __init__(self, key: Key, cluster: Cluster, clock: Clock, probing: Probing, *, is_self: bool = False) -> None:
        self.key = key
        self.cluster = cluster
        self.port = cluster.port
        self.is_self = is_self
        self.identity = Identity(cluster.client.session, probing.timeout, certain=is_self)
        self.identified = is_self
        """Whether the cluster's identity was confirmed as far as possible: before that no controller reads the
        target.
        """
        self.ranges = ANYWHERE
        """Ranges that may contain addresses of its pods."""
        self.finalizer = names.finalizer(*key)
        self.node_name = names.virtual_node(*key)
        self.record = Record(State.CONNECTING, "connecting", clock.now())
        self.changed: Callable[[Target], None] = lambda target: None
        self.latency = LatencyMonitor(probing.slow)
        self.refusal_backoff = RefusalBackoff()
        self.refusal_backoff.changed = lambda: self.changed(self)
        self.unreadable = ""
        """Objects in the target that cannot be read, with the reason, at the last probe; empty if there are none."""
        self._clock = clock
        self._probing = probing
        self._probe_asked = asyncio.Event()
        self._rests = False
        """Whether the watches rest because the target does not answer."""
        self.chaperons = self.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
        self.chaperons.store.index("parent", parent_of)
        self.trust = StoreFreshness(self.chaperons, self._believe)
        self.ignored = ""
        """Message about published values of the target that are ignored because they are unusable."""
        self.summaries = self.informer(CLUSTER_SUMMARIES, fields=SUMMARY_FIELDS)
        self._agent = AgentMonitor(
            "/".join(key).lstrip("/"), self.port, self.summaries, probing.agent_interval, is_self=is_self
        )
        self._agent.changed = lambda: self.changed(self)
        self.watch_agent = self._agent.run
        self.end = self.summaries.subscribe(self._summary_changed)
        """Unsubscribe. A self-target shares the local cluster's informers, which keep running."""

    @property
    def namespace(self) -> str:
        """The only namespace that this target serves, empty for all."""
        return self.key[0]

    @property
    def title(self) -> str:
        """Name for users."""
        return self.key[1]

    @property
    def ready(self) -> bool:
        """Whether pods may be sent to the target and its stores are up to date."""
        return self.record.state is State.READY

    @property
    def summary(self) -> Object | None:
        """The target's report about its nodes; None while it is unknown or unusable."""
        return self._agent.summary if self.identified else None

    @property
    def told(self) -> Object | None:
        """The summary for readers that validate their own annotation: other fields may be flawed."""
        return self._agent.told if self.identified else None

    @property
    def agent(self) -> AgentRecord | None:
        """State of the target's agent; None until it is first known, during which its last published state is kept."""
        return self._agent.record

    @property
    def homes(self) -> tuple[str, ...]:
        """Namespaces in the target that have a lease of an agent."""
        return self._agent.homes

    @property
    def replicas(self) -> frozenset[str]:
        """Identities of the leading agents in the target; empty unless they are known to be alive."""
        return self._agent.replicas if self.agent is not None and self.agent.state is AgentState.READY else frozenset()

    def serves(self, namespace: str) -> bool:
        """Return whether pods of a namespace may use the target."""
        return not self.namespace or self.namespace == namespace

    def informer(self, kind: Kind, *, labels: str = "", fields: str = "", reduce: Reduce | None = None) -> Informer:
        """Return a shared informer of the target cluster, within the namespace that this target serves."""
        namespace = self.namespace if kind.namespaced else None
        return self.port.informer(kind, namespace, labels=labels, fields=fields, reduce=reduce)

    @property
    def slow(self) -> bool:
        """Whether pods should prefer other targets."""
        return self.latency.slow

    def look(self, local: float) -> bool:
        """Judge the target's latency; return whether `slow` changed.

        :param local: latency of the local API server in seconds
        """
        if changed := not self.is_self and self.latency.look(self.cluster.client.session.pace, local):
            log.info("target %s: %s", "/".join(self.key).lstrip("/"), "slow" if self.slow else "prompt again")
        return changed

    def keep_to(self, ranges: PodRanges) -> None:
        """Accept addresses of the target's pods only from these ranges."""
        if ranges != self.ranges:
            self.ranges = ranges
            self.changed(self)

    def identify(self) -> None:
        """Record that the cluster is the right one: controllers begin to read it."""
        self.identified = True
        self.changed(self)

    def ignore(self, what: str) -> None:
        """Report which published values of the target are ignored because they are unusable; empty if none are."""
        if what != self.ignored:
            self.ignored = what
            if what:
                log.warning("target %s: %s", "/".join(self.key).lstrip("/"), what)
            self.changed(self)

    def renew(self, connection: Connection) -> None:
        """Use other credentials of the same identity for new requests; running requests keep the old ones."""
        self.cluster.client.session.connection = connection
        self.probe_now()

    def probe_now(self) -> None:
        """Probe now rather than at the next interval, because a request had no answer."""
        self._probe_asked.set()

    async def run(self) -> None:
        """Probe until cancelled; report every change of state to `changed`."""
        while True:
            self._probe_asked.clear()
            error = await self._probe()
            if error is None:
                self._wake()
            self._conclude(error or self._unread())
            self._look_for_flaws()
            asked = await set_within(self._probe_asked, self._pause())
            if not asked and self.ready and not (self.slow or self.record.failures):
                # A lease that was read meanwhile replaces one probe.
                await set_within(self._probe_asked, self._agent.heard_for(self._probing.interval))

    def _wake(self) -> None:
        """End the rest of the watches: the target counts as unread until they have resumed."""
        if self._rests:
            self._rests = False
            self.cluster.informers.interrupt()

    def _look_for_flaws(self) -> None:
        unreadable = self.cluster.informers.flaws()
        if unreadable != self.unreadable:
            self.unreadable = unreadable
            self.changed(self)

    def _summary_changed(self, old: Object | None, new: Object | None) -> None:
        if self.identity.hear(new) and self.record.state is not State.CONNECTING:
            self.probe_now()
        self._agent.summary_changed(new)

    def _pause(self) -> float:
        if self.record.state is State.CONNECTING or (self.ready and self.record.failures):
            return min(0.25, self._probing.interval)
        if self.slow:
            return min(_SLOW_SECONDS, self._probing.interval)
        return self._probing.interval

    async def _probe(self) -> KubeError | None:
        path = CHAPERONS.path(self.namespace or None)
        try:
            await self.cluster.client.session.request(
                "GET",
                path,
                params=PROBE,
                resource=CHAPERONS.plural,
                timeout=self._probing.timeout,
                at_once=True,
            )
            if not self.identity.sure:
                await self.identity.ask()
        except KubeError as error:
            self.identity.doubt()
            return error
        return None

    def _unread(self) -> KubeError | None:
        """Return the error of a failing watch. For a self-target only PodChaperons count: leader election
        covers the rest.
        """
        others = () if self.is_self else self.cluster.informers
        return unread(self.chaperons, others, time.monotonic(), self._probing.unread)

    def _conclude(self, error: KubeError | None) -> None:
        old = self.record
        if error is None:
            self._answered(old)
            return
        failures = old.failures + 1
        state, message = classify(error, self.namespace)
        if (
            old.state is State.READY
            and state in (State.UNREACHABLE, State.FAILING)
            and failures < self._probing.failures
        ):
            self.record = replace(old, failures=failures)
            return
        now, silent = self._clock.now(), is_silence(error)
        since = old.since if state is old.state else now
        unanswered = (old.unanswered_since or now) if silent or state is State.UNREACHABLE else None
        self.trust.lose()
        if silent and not self.is_self:
            self._rests = True
            self.cluster.informers.rest()
        self._become(Record(state, message, since, failures, silent, unanswered))

    def _answered(self, old: Record) -> None:
        if problem := self.identity.problem:
            self.identified = False
            self.trust.lose()
            since = old.since if old.state is problem[0] else self._clock.now()
            self._become(Record(*problem, since))
        elif not self.identified:
            self.identify()
            self._become(Record(State.CONNECTING, "it answers, reading its state", self._clock.now()))
        elif old.state is State.READY:
            self.record = replace(old, failures=0)
        elif self.chaperons.synced.is_set() and not self.trust.doubted:
            self._believe()
        else:
            self._catch_up(old)

    def _catch_up(self, old: Record) -> None:
        """Bring the stores of an answering target up to date."""
        self.trust.answered(again=old.failures > 0)
        if old.failures:
            # Other users of the local cluster share its watches.
            (self.chaperons if self.is_self else self.cluster.informers).interrupt()
        error = self.chaperons.error
        if old.state is not State.CONNECTING:
            self._become(Record(State.CONNECTING, "reachable again, reading its state", self._clock.now()))
        elif error is not None and not old.failures:
            self._become(replace(old, message=f"its PodChaperons cannot be read: {error}"))
        else:
            self.record = replace(old, failures=0)

    def _believe(self) -> None:
        if self.identified and not self.identity.problem:
            self._become(Record(State.READY, "connected", self._clock.now()))

    def _become(self, record: Record) -> None:
        old, self.record = self.record, record
        self._agent.connect(self.ready)
        if (old.state, old.message) != (record.state, record.message):
            log.info("target %s: %s: %s", "/".join(self.key).lstrip("/"), record.state.value, record.message)
            self.changed(self)


def parent_of(chaperon: Object) -> list[str]:
    """Return the key of the proxy pod that a chaperon represents, as `namespace/name`."""
    known = chaperon.hot_annotations
    return [f"{known.parent_namespace or chaperon.namespace}/{known.parent_name or chaperon.name}"]
