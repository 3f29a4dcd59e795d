"""Runs controllers of the agent against a real API server, as the composition root does, with short times."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from agent.api.kinds import NAMESPACES
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.copies.prerequisites import Prerequisites
from agent.clusters.deps import Deps
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Probing
from agent.kube.config import load
from agent.kube.events import Recorder
from agent.runtime.controller import Controller
from agent.runtime.lease import LeaderLease
from agent.runtime.supervisor import Supervisor
from agent.settings import Settings
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.waiting import until


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


SETTINGS: dict[str, Any] = {
    "cluster_name": "here",
    "node_address": "10.1.2.3",
    "moves": False,
    "service_links": False,
}
"""Settings of tests that run some controllers. Nothing waits for the state of moves and ServiceLinks."""


@contextlib.asynccontextmanager
async def running(
    cluster: SandboxCluster,
    *controllers: Callable[[Deps], Controller[Any]],
    lease: LeaderLease | None = None,
    **settings: Any,
) -> AsyncIterator[Deps]:
    """Run the controllers; at the end, assert that none of them failed unexpectedly."""
    errors = _Errors()
    logger = logging.getLogger("agent")
    logger.addHandler(errors)
    try:
        async with contextlib.AsyncExitStack() as stack:
            deps, supervisor = await _deps(cluster, stack, settings, lease)
            supervisor.spawn("events", deps.recorder.run)
            for controller in [controller(deps) for controller in controllers]:
                supervisor.spawn(controller.name, controller.run)
            yield deps
    finally:
        logger.removeHandler(errors)
    assert errors.messages == []


async def namespace_known(deps: Deps, namespace: str, annotations: Mapping[str, str | None]) -> None:
    """Wait until the controllers have cached a namespace's annotations (None: removed), before a test creates
    pods."""

    def known() -> bool:
        found = deps.namespaces.annotations(namespace)
        return all(found.get(key) == value for key, value in annotations.items())

    await until(known, what="the controllers know what the namespace says")


async def _deps(
    cluster: SandboxCluster, stack: contextlib.AsyncExitStack, settings: dict[str, Any], lease: LeaderLease | None
) -> tuple[Deps, Supervisor]:
    """Build dependencies. Controllers stop before the targets are closed: a controller would reconnect them."""
    clock = SystemClock()
    local = Cluster(load(str(cluster.kubeconfig)), "local")
    stack.push_async_callback(local.close)
    uid = (await local.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    supervisor = Supervisor("test")
    probing = Probing(
        interval=settings.get("probe_interval", 0.5),
        timeout=2.0,
        agent_interval=settings.get("agent_interval", 15.0),
        # On a busy machine responses may be late.
        slow=settings.get("slow_target", 5.0),
    )
    targets = Targets(local, clock, probing, supervisor)
    stack.push_async_callback(targets.close)
    stack.push_async_callback(supervisor.stop)
    deps = Deps(
        settings=Settings(**{**SETTINGS, **settings}),
        clock=clock,
        local=local,
        cluster_uid=uid,
        targets=targets,
        chaperons=Chaperons(targets, uid),
        prerequisites=Prerequisites(targets),
        recorder=Recorder(local.client, clock),
        lease=lease,
    )
    return deps, supervisor
