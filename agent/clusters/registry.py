"""Registry of all targets of this cluster: adds, changes and removes them while the agent runs."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator

from agent.base.clock import Clock
from agent.base.listeners import tell
from agent.clusters import metrics
from agent.clusters.cluster import Cluster
from agent.clusters.health.latency_monitor import LOOK_SECONDS
from agent.clusters.identity import ANY, Expected
from agent.clusters.target import Probing, Target
from agent.kube.budget import Budget
from agent.kube.config import Connection
from agent.kube.openings import Openings
from agent.kube.store import Key
from agent.model.podranges import ANYWHERE, PodRanges
from agent.runtime.supervisor import Supervisor
from agent.runtime.task_group import together

Listener = Callable[[Target], None]

KEPT = 512 * 1024 * 1024
"""Most bytes of a target's objects that are kept, before packing: enough for 40,000 delegates."""
PORTION = 1 / 3
"""Largest share of time for processing the data of one target."""


class Targets:
    """Connected targets by key. An exception of one listener is logged and does not affect the others.

    - `on_attach`: a target was added and its cluster's identity is confirmed; subscribe to its informers then.
    - `on_change`: its state has changed.
    - `on_latency`: it has become slow or prompt again.
    - `on_detach`: it is about to be removed or replaced with new credentials, whether it was attached or not.
    """

    def __init__(self, local: Cluster, clock: Clock, probing: Probing, supervisor: Supervisor) -> None:
        self._local = local
        self._clock = clock
        self._probing = probing
        self._supervisor = supervisor
        # The local cluster has no such limit: all work needs its watches.
        self._openings = Openings()
        self._targets: dict[Key, tuple[Target, str, tuple[Callable[[], object], ...]]] = {}
        self._by_node: dict[str, Target] = {}
        self._by_finalizer: dict[str, Target] = {}
        self._by_namespace: defaultdict[str, dict[Key, Target]] = defaultdict(dict)
        """By the only namespace that they serve; empty for all namespaces."""
        self._attached: set[Target] = set()
        self._closing: set[Cluster] = set()
        self._attach: list[Listener] = []
        self._change: list[Listener] = []
        self._latency: list[Listener] = []
        self._detach: list[Listener] = []
        supervisor.spawn("pace of targets", self._watch_pace)

    def __iter__(self) -> Iterator[Target]:
        return iter([target for target, _, _ in self._targets.values()])

    def __len__(self) -> int:
        return len(self._targets)

    def get(self, key: Key) -> Target | None:
        """Return the connected target of a key, None if there is none."""
        entry = self._targets.get(key)
        return entry[0] if entry else None

    def by_node(self, node_name: str) -> Target | None:
        """Return the connected target behind a virtual node, None if there is none."""
        return self._by_node.get(node_name)

    def by_finalizer(self, finalizer: str) -> Target | None:
        """Return the connected target that a finalizer of a proxy pod names, None if there is none."""
        return self._by_finalizer.get(finalizer)

    def serving(self, namespace: str) -> list[Target]:
        """Return the connected targets that pods of a namespace may use."""
        own = self._by_namespace.get(namespace, {}) if namespace else {}
        return [*own.values(), *self._by_namespace.get("", {}).values()]

    def on_attach(self, listener: Listener) -> None:
        """Register a listener: called for every target that is or will be attached."""
        self._attach.append(listener)
        for target in self:
            if target in self._attached:
                listener(target)

    def on_change(self, listener: Listener) -> None:
        """Register a listener: called when a target's state changes."""
        self._change.append(listener)

    def on_latency(self, listener: Listener) -> None:
        """Register a listener: called when a target becomes slow or prompt again, which does not trigger
        `on_change`.
        """
        self._latency.append(listener)

    def on_detach(self, listener: Listener) -> None:
        """Register a listener: called before a target is removed."""
        self._detach.append(listener)

    async def connect(
        self,
        key: Key,
        connection: Connection | None,
        fingerprint: str,
        ranges: PodRanges = ANYWHERE,
        expected: Expected = ANY,
    ) -> Target:
        """Add a target (no connection: the local cluster), or replace it if its fingerprint has changed.

        A ready target with the same fingerprint stays and uses the new connection's credentials. One that is
        not ready is replaced even so, because it may lack these credentials.
        """
        entry = self._targets.get(key)
        if entry is not None:
            if entry[1] == fingerprint:
                target = entry[0]
                if connection is None or connection is target.cluster.client.session.connection:
                    return target
                if target.ready:
                    target.renew(connection)
                    return target
            await self.disconnect(key)
        name = "/".join(key).lstrip("/")
        cluster = self._local if connection is None else self._cluster(connection, name)
        target = Target(key, cluster, self._clock, self._probing, is_self=connection is None)
        target.ranges = ranges
        target.identity.expect(expected)
        target.changed = self._changed
        stops = (
            self._supervisor.spawn(f"probe {name}", target.run),
            self._supervisor.spawn(f"agent of {name}", target.watch_agent),
            self._supervisor.spawn(f"trust in {name}", target.trust.run),
        )
        self._targets[key] = (target, fingerprint, stops)
        self._by_node[target.node_name] = self._by_finalizer[target.finalizer] = target
        self._by_namespace[target.namespace][key] = target
        self._changed(target)
        return target

    async def disconnect(self, key: Key) -> None:
        """Remove a target. Its pods keep running."""
        entry = self._targets.pop(key, None)
        if entry is None:
            return
        target, _, stops = entry
        for stop in (*stops, target.end):
            stop()
        self._by_node.pop(target.node_name, None)
        self._by_finalizer.pop(target.finalizer, None)
        beside = self._by_namespace[target.namespace]
        del beside[key]
        if not beside:
            del self._by_namespace[target.namespace]
        self._attached.discard(target)
        tell(self._detach, target)
        self._changed(target)
        metrics.forget(target)
        if not target.is_self:
            self._closing.add(target.cluster)
            await self._close(target.cluster)

    async def close(self) -> None:
        """Disconnect from all targets; also finish cancelled calls of `disconnect`."""
        await together(*map(self.disconnect, list(self._targets)), *map(self._close, list(self._closing)))

    async def _watch_pace(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            local = self._local.client.session.pace.average
            for target in self:
                if target.slow or not target.cluster.client.session.pace.quiet:
                    tell((self._look,), target, local)

    def _look(self, target: Target, local: float) -> None:
        if target.look(local):
            metrics.note(target)
            tell(self._latency, target)

    def _cluster(self, connection: Connection, name: str) -> Cluster:
        """Return a connection to a cluster with the same timeout as the local one."""
        timeout = self._local.client.session.timeout
        cluster = Cluster(connection, name, timeout=timeout, budget=Budget(KEPT, PORTION))
        cluster.client.session.openings = self._openings
        return cluster

    async def _close(self, cluster: Cluster) -> None:
        await cluster.close()
        self._closing.discard(cluster)

    def _changed(self, target: Target) -> None:
        if target.identified and target not in self._attached and self.get(target.key) is target:
            self._attached.add(target)
            tell(self._attach, target)
        metrics.note(target)
        tell(self._change, target)
