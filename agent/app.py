"""Composition root: settings -> clusters -> controllers, most of them run while this replica leads."""

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from agent.api import names
from agent.api.kinds import NAMESPACES
from agent.base.clock import Clock, SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.copies.prerequisites import Prerequisites
from agent.clusters.deps import Deps
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Probing
from agent.controllers import build, build_for_every_replica, optional_controllers
from agent.extender.server import Extender
from agent.kube.client import Client
from agent.kube.config import SERVICE_ACCOUNT, Connection, load
from agent.kube.errors import KubeError
from agent.kube.events import Recorder
from agent.kube.session import Session
from agent.kubelet.controller import KubeletController
from agent.runtime.guardedmetrics import GuardedMetrics
from agent.runtime.health import Health
from agent.runtime.lease import LeaderLease, LeaseTimes
from agent.runtime.supervisor import Supervisor
from agent.runtime.task_group import together
from agent.runtime.vitals import STAND_DOWNS, Judgement, Vitals
from agent.runtime.watchdog import roster
from agent.scheduler.controller import ProxyScheduler
from agent.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

_SYSTEM_NAMESPACE = "kube-system"
_LOOK_SECONDS = 5.0
_ELECTION_SECONDS = 90.0
"""Seconds of additional delay of a lease renewal after which a replica counts as hanging, for example while it
stops its controllers.
"""
_STAND_BY_PATIENCE = 5
"""Factor on the patience with the leader's controllers: no other replica could do this work instead."""


async def run(settings: Settings) -> None:
    """Run the agent until cancelled.

    Raises InvalidConfig for an unusable kubeconfig, OSError for a port that is in use.
    """
    # Import them now, so that an import error shows at the start rather than when this replica leads, maybe
    # days later.
    optional_controllers(settings)
    connection = load(settings.kubeconfig or None, settings.context or None)
    clock = SystemClock()
    health = Health(settings.health_address, metrics=not settings.metrics_address)
    health.cluster = ""
    app = App(settings, connection, clock, health)
    health.ready("agent", app.ready)
    health.live("agent", app.alive)
    async with Session(connection, name="local", timeout=settings.request_timeout) as session:
        lease = app.lease(Client(session))
        metrics = settings.metrics_address
        serving = (GuardedMetrics(metrics, Client(session)).serve(),) if metrics else ()
        await together(health.serve(), *serving, lease.run(app.lead), app.stand_by())


class App:
    """One replica: waits for the lease, then leads."""

    def __init__(self, settings: Settings, connection: Connection, clock: Clock, health: Health) -> None:
        self._settings = settings
        self._health = health
        self._connection = connection
        self._clock = clock
        self._lease: LeaderLease | None = None
        self._not_ready: Callable[[], str | None] = lambda: None
        self._judgement = Judgement(settings.unwell_after)
        self._standing_by: Vitals | None = None

    def lease(self, client: Client) -> LeaderLease:
        """Return the lease that makes this replica the leader."""
        settings = self._settings
        times = LeaseTimes(settings.lease_duration, settings.lease_renew, settings.lease_retry)
        namespace = settings.namespace or _own_namespace()
        self._lease = LeaderLease(client, self._clock, namespace, names.LEASE_CONTROLLERS, settings.replica, times)
        return self._lease

    def ready(self) -> str | None:
        """Return why this replica is not ready: no contact with its API server yet, or it leads and is still
        reading.
        """
        if self._lease is None or not self._lease.contact:
            return "no contact with the API server of this cluster yet"
        return self._not_ready() if self._lease.leading else None

    def alive(self) -> str | None:
        """Return why only a restart can help this replica. None while the API server itself does not answer."""
        lease, now = self._lease, time.monotonic()
        if lease is None:
            return None
        settings = self._settings
        if now - lease.turned > settings.lease_renew + settings.lease_retry + _ELECTION_SECONDS:
            return f"the election of a leader stands still since {now - lease.turned:.0f} s"
        if now - lease.heard > settings.lease_duration:
            return None
        patience = _STAND_BY_PATIENCE * settings.unwell_after
        others = self._standing_by.trouble(patience) if self._standing_by is not None else ""
        return self._judgement.hopeless or others or None

    async def stand_by(self) -> None:
        """Run the controllers of every replica until cancelled, with their own connection: the leader's ends
        with its lease.
        """
        local = Cluster(self._connection, "local", timeout=self._settings.request_timeout)
        controllers = roster()
        async with contextlib.AsyncExitStack() as stack, Supervisor("replica") as supervisor:
            stack.push_async_callback(local.close)
            self._standing_by = Vitals(local.informers, (supervisor, local.supervisor), controllers)
            for controller in build_for_every_replica(local, self._clock, self._settings):
                supervisor.spawn(controller.name, controller.run)
            if self._settings.extender_address:
                extender = Extender(local, self._clock, self._settings)
                await extender.start()
                supervisor.spawn("extender", extender.run)
            await asyncio.Event().wait()

    async def lead(self) -> None:
        """Run every controller until cancelled, or until another replica should lead instead."""
        self._not_ready = lambda: "starting"
        local = Cluster(self._connection, "local", timeout=self._settings.request_timeout)
        watched = roster()
        async with contextlib.AsyncExitStack() as stack, Supervisor("agent") as supervisor:
            stack.push_async_callback(local.close)
            deps = await self._deps(local, supervisor)
            stack.push_async_callback(deps.targets.close)
            controllers = [*build(deps), ProxyScheduler(deps), KubeletController(deps)]
            self._not_ready = lambda: _unsynced(local)
            supervisor.spawn("events", deps.recorder.run)
            for controller in controllers:
                supervisor.spawn(controller.name, controller.run)
            await self._be_well(Vitals(local.informers, (supervisor, local.supervisor), watched))

    async def _be_well(self, vitals: Vitals) -> None:
        """Return when this replica cannot do its work although its API server answers requests for the lease."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._lease is not None and self._lease.holds():
                trouble = self._judgement.stands_down(vitals.trouble, time.monotonic())
                if trouble:
                    STAND_DOWNS.inc()
                    log.error("another replica had better lead: %s", trouble)
                    return

    async def _deps(self, local: Cluster, supervisor: Supervisor) -> Deps:
        settings = self._settings
        cluster_uid = self._health.cluster = await _cluster_uid(local.client)
        probing = Probing(
            settings.probe_interval,
            settings.probe_timeout,
            settings.probe_failures,
            settings.agent_interval,
            settings.slow_target,
            settings.unwell_after,
        )
        targets = Targets(local, self._clock, probing, supervisor)
        return Deps(
            settings=settings,
            clock=self._clock,
            local=local,
            cluster_uid=cluster_uid,
            targets=targets,
            chaperons=Chaperons(targets, cluster_uid),
            prerequisites=Prerequisites(targets),
            recorder=Recorder(local.client, self._clock),
            lease=self._lease,
        )


async def _cluster_uid(client: Client) -> str:
    """Return the UID that identifies this cluster (ruling 4). Retries until the API server answers."""
    while True:
        try:
            return str((await client.get(NAMESPACES, _SYSTEM_NAMESPACE))["metadata"]["uid"])
        except KubeError as error:
            log.warning("cannot read namespace %s: %s", _SYSTEM_NAMESPACE, error)
        await asyncio.sleep(1)


def _unsynced(local: Cluster) -> str | None:
    waiting = sorted(f"{informer.kind}" for informer in local.informers if not informer.synced.is_set())
    return f"still reading {', '.join(waiting)}" if waiting else None


def _own_namespace() -> str:
    path = SERVICE_ACCOUNT / "namespace"
    return path.read_text().strip() if path.exists() else _SYSTEM_NAMESPACE
