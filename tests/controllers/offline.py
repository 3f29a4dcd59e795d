"""Controllers without an API server: their informers have synced, and contain the objects that a test writes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from agent.api.kinds import Kind
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.copies.prerequisites import Prerequisites
from agent.clusters.deps import Deps
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Probing
from agent.kube.config import Connection
from agent.kube.events import Recorder
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.controller import Controller
from agent.runtime.supervisor import Supervisor
from agent.settings import Settings
from tests.controllers.starting import SETTINGS
from tests.waiting import until

SomeController = TypeVar("SomeController", bound=Controller[Any])


class Offline:
    """A cluster whose objects a test writes directly into the informers."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps
        self._version = 0

    def put(self, informer: Informer, kind: Kind, name: str, namespace: str = "", **fields: Any) -> None:
        """Create or replace an object, as an event of the watch does."""
        self._version += 1
        metadata = {"name": name, "uid": f"{kind.plural}-{namespace}-{name}", "resourceVersion": str(self._version)}
        metadata |= {"namespace": namespace} if namespace else {}
        raw = json.dumps({**fields, "metadata": {**metadata, **fields.pop("metadata", {})}}).encode()
        informer._contents.put(Object(kind, raw), self._version)

    def delete(self, informer: Informer, name: str, namespace: str = "") -> None:
        """Delete an object, as an event of the watch does."""
        self._version += 1
        informer._contents.remove((namespace, name), self._version)


async def quiet(controller: Controller[Any]) -> None:
    """Wait until the queue of a running controller is empty."""
    await until(lambda: not any(controller.queue.statistics()[:2]))


@contextlib.asynccontextmanager
async def offline(
    make: Callable[[Deps], SomeController], server: str = "http://127.0.0.1:1", **settings: Any
) -> AsyncIterator[tuple[Offline, SomeController]]:
    """Run a controller in a cluster without objects.

    :param server: URL that answers requests of the controller
    """
    clock, supervisor = SystemClock(), Supervisor("test")
    local = Cluster(Connection(server), "local")
    targets = Targets(local, clock, Probing(interval=60.0, timeout=1.0, agent_interval=60.0, slow=5.0), supervisor)
    deps = Deps(
        settings=Settings(**{**SETTINGS, **settings}),
        clock=clock,
        local=local,
        cluster_uid="here-uid",
        targets=targets,
        chaperons=Chaperons(targets, "here-uid"),
        prerequisites=Prerequisites(targets),
        recorder=Recorder(local.client, clock),
    )
    controller = make(deps)
    await local.supervisor.stop()
    for informer in local.informers:
        informer.synced.set()
    work = asyncio.create_task(controller.run())
    try:
        yield Offline(deps), controller
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await supervisor.stop()
        await local.close()
