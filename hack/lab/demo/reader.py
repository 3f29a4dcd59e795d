"""Read the state that the demo shows and checks, from all clusters at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import msgspec

from agent.api.kinds import CHAPERONS, NODES, PODS, TARGETS, Kind
from agent.kube.client import Client, Objects
from hack.lab.demo.fleet import DemoState, Readings, assemble
from hack.lab.demo.manifests import DEPLOYMENTS, JOBS, REPLICA_SETS
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.manifests import NAMESPACE
from hack.lab.sandbox.objects import connect


class Clients(msgspec.Struct, frozen=True):
    """A client for each cluster."""

    source: Client
    all: Mapping[str, Client]

    async def fleet(self) -> DemoState:
        """Read the current state of all clusters. Raises KubeError if one does not answer."""
        pods, chaperons, nodes, targets, workloads = await asyncio.gather(
            self._everywhere(PODS),
            self._everywhere(CHAPERONS),
            self._everywhere(NODES),
            self.source.list(TARGETS, NAMESPACE),
            self._workloads(),
        )
        return assemble(Readings(self.source.name, pods, chaperons, nodes, targets, workloads))

    async def _workloads(self) -> Objects:
        kinds = (DEPLOYMENTS, REPLICA_SETS, JOBS)
        lists = await asyncio.gather(*(self.source.list(kind, NAMESPACE) for kind in kinds))
        return [obj for found in lists for obj in found]

    async def _everywhere(self, kind: Kind) -> dict[str, Objects]:
        # Kind.path ignores the namespace of kinds that have none.
        lists = await asyncio.gather(*(client.list(kind, NAMESPACE) for client in self.all.values()))
        return dict(zip(self.all, lists, strict=True))


@contextlib.asynccontextmanager
async def connected(sandbox: Sandbox) -> AsyncIterator[Clients]:
    """Connect to all clusters of a running sandbox; the first one is the source."""
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for cluster in sandbox.clusters:
            client = connect(cluster.kubeconfig, name=cluster.name)
            await stack.enter_async_context(client.session)
            clients[cluster.name] = client
        yield Clients(next(iter(clients.values())), clients)
