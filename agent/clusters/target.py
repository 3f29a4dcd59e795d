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
"""Parameters of a probe, which lists no PodChaperon. API servers answer from their cache, where they ignore `limit`."""
_SLOW_SECONDS = 1.0
"""Pause between probes of a slow target: with few pods sent there, little else tells that it is prompt again."""


class Target:
    """A cluster that runs our delegates, as one Target (or, with an empty namespace, ClusterTarget) names it.

    Chaperons are watched from the start. `ready` means: reachable, authorised, and the chaperons known. While it is
    not, nothing may be concluded from what the stores do not hold.
    """

    def __init__(self, key: Key, cluster: Cluster, clock: Clock, probing: Probing, *, is_self: bool = False) -> None:
        self.key = key
        self.cluster = cluster
        self.port = cluster.port
        self.is_self = is_self
        self.identity = Identity(cluster.client.session, probing.timeout, certain=is_self)
        self.identified = is_self
        """Whether it is known to be the right cluster, as far as that can be known: before that no controller looks
        there."""
        self.ranges = ANYWHERE
        """Where addresses of its pods may be."""
        self.finalizer = names.finalizer(*key)
        self.node_name = names.virtual_node(*key)
        self.record = Record(State.CONNECTING, "connecting", clock.now())
        self.changed: Callable[[Target], None] = lambda target: None
        self.latency = LatencyMonitor(probing.slow)
        self.refusal_backoff = RefusalBackoff()
        self.refusal_backoff.changed = lambda: self.changed(self)
        self.unreadable = ""
        """Objects there that cannot be read and why, as of the last probe; empty if all can."""
        self._clock = clock
        self._probing = probing
        self._probe_asked = asyncio.Event()
        self.chaperons = self.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
        self.chaperons.store.index("parent", parent_of)
        self.trust = StoreFreshness(self.chaperons, self._believe)
        self.ignored = ""
        """What it tells that cannot be used and is left out, in words."""
        self.summaries = self.informer(CLUSTER_SUMMARIES, fields=SUMMARY_FIELDS)
        self._agent = AgentMonitor(
            "/".join(key).lstrip("/"), self.port, self.summaries, probing.agent_interval, is_self=is_self
        )
        self._agent.changed = lambda: self.changed(self)
        self.watch_agent = self._agent.run
        self.end = self.summaries.subscribe(self._summary_changed)
        """Take no more notice of what the cluster tells: the informers of this very cluster live on."""

    @property
    def namespace(self) -> str:
        """The only namespace this target serves, empty for all."""
        return self.key[0]

    @property
    def title(self) -> str:
        """How a user calls it."""
        return self.key[1]

    @property
    def ready(self) -> bool:
        """Whether pods may be sent there and its stores may be believed."""
        return self.record.state is State.READY

    @property
    def summary(self) -> Object | None:
        """What the target tells of its nodes; None while that is not known, or cannot be used."""
        return self._agent.summary if self.identified else None

    @property
    def told(self) -> Object | None:
        """The summary for readers that check their annotation themselves: other fields may be flawed."""
        return self._agent.told if self.identified else None

    @property
    def agent(self) -> AgentRecord | None:
        """Its agent; None until it is known for the first time: until then what was said of it last stays."""
        return self._agent.record

    @property
    def homes(self) -> tuple[str, ...]:
        """Namespaces there that have a lease of an agent."""
        return self._agent.homes

    @property
    def replicas(self) -> frozenset[str]:
        """Replicas of agents that lead there, as far as they are known to be alive."""
        return self._agent.replicas if self.agent is not None and self.agent.state is AgentState.READY else frozenset()

    def serves(self, namespace: str) -> bool:
        """Whether pods of a namespace may go there."""
        return not self.namespace or self.namespace == namespace

    def informer(self, kind: Kind, *, labels: str = "", fields: str = "", reduce: Reduce | None = None) -> Informer:
        """A shared informer of the target cluster, within the namespace this target serves."""
        namespace = self.namespace if kind.namespaced else None
        return self.port.informer(kind, namespace, labels=labels, fields=fields, reduce=reduce)

    @property
    def slow(self) -> bool:
        """Whether pods that can go elsewhere should."""
        return self.latency.slow

    def look(self, local: float) -> bool:
        """Judge whether it is slow, where our own API server takes `local` seconds; returns whether that changed."""
        if changed := not self.is_self and self.latency.look(self.cluster.client.session.pace, local):
            log.info("target %s: %s", "/".join(self.key).lstrip("/"), "slow" if self.slow else "prompt again")
        return changed

    def keep_to(self, ranges: PodRanges) -> None:
        """Take addresses of its pods from these ranges only from now on."""
        if ranges != self.ranges:
            self.ranges = ranges
            self.changed(self)

    def identify(self) -> None:
        """It is the right cluster: controllers begin to look there."""
        self.identified = True
        self.changed(self)

    def ignore(self, what: str) -> None:
        """Say what the target tells that is left out because it cannot be used; empty when nothing is."""
        if what != self.ignored:
            self.ignored = what
            if what:
                log.warning("target %s: %s", "/".join(self.key).lstrip("/"), what)
            self.changed(self)

    def renew(self, connection: Connection) -> None:
        """Use other credentials of the same identity from now on; what is under way goes on with the old ones."""
        self.cluster.client.session.connection = connection
        self.probe_now()

    def probe_now(self) -> None:
        """A request got no answer: probe now rather than at the next interval."""
        self._probe_asked.set()

    async def run(self) -> None:
        """Probe until cancelled; every change of state is told to `changed`."""
        while True:
            self._probe_asked.clear()
            self._conclude(await self._probe() or self._unread())
            self._look_for_flaws()
            asked = await set_within(self._probe_asked, self._pause())
            if not asked and self.ready and not (self.slow or self.record.failures):
                # That its lease was read meanwhile spares one probe.
                await set_within(self._probe_asked, self._agent.heard_for(self._probing.interval))

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
        """What it would tell, and does not although it answers. Of this cluster itself its leader takes care."""
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
        """It answers: have what is stored of it brought up to date."""
        self.trust.answered(again=old.failures > 0)
        if old.failures:
            # Watches of this very cluster are others', too.
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
    """Key of the proxy pod that a chaperon stands for, as `namespace/name`."""
    known = chaperon.hot_annotations
    return [f"{known.parent_namespace or chaperon.namespace}/{known.parent_name or chaperon.name}"]
