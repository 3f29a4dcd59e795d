"""Reads what the demo shows and checks, from every cluster at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import msgspec

from agent.api.kinds import CHAPERONS, NODES, PODS, TARGETS, Kind
from agent.kube.client import Client, Objects
from agent.sandbox import Sandbox
from agent.sandbox.demo.fleet import DemoState, Readings, assemble
from agent.sandbox.demo.manifests import DEPLOYMENTS, JOBS, REPLICA_SETS
from agent.sandbox.manifests import NAMESPACE
from agent.sandbox.objects import connect


class Clients(msgspec.Struct, frozen=True):
    """A client per cluster; the first cluster is the source."""

    source: Client
    all: Mapping[str, Client]

    async def fleet(self) -> DemoState:
        """What all clusters say now. Raises KubeError if one gives no answer."""
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
        # No namespace for what has none: Kind.path leaves it out.
        lists = await asyncio.gather(*(client.list(kind, NAMESPACE) for client in self.all.values()))
        return dict(zip(self.all, lists, strict=True))


@contextlib.asynccontextmanager
async def connected(sandbox: Sandbox) -> AsyncIterator[Clients]:
    """Clients of all clusters of a sandbox that is up."""
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for cluster in sandbox.clusters:
            client = connect(cluster.kubeconfig, name=cluster.name)
            await stack.enter_async_context(client.session)
            clients[cluster.name] = client
        yield Clients(next(iter(clients.values())), clients)
