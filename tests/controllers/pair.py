"""Two real clusters, a source and a target, for controllers that copy from one to the other."""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from agent.api import names
from agent.api.kinds import NAMESPACES, PODS, SERVICE_ACCOUNTS, Kind
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.kube.errors import NotFound
from agent.model.proxypod import proxy_pod
from agent.runtime.controller import Controller
from agent.runtime.lease import LeaderLease
from hack.lab.sandbox import Cluster, Sandbox
from tests.controllers.proxies import elected, enable
from tests.controllers.starting import running
from tests.namespaces import clear
from tests.waiting import until

Raw = dict[str, Any]

SOON = {"follow_linger": 0.5}
"""Settings under which unused copies are deleted soon."""


@dataclass
class Pair:
    """Clients of source and target, with all rights, and a namespace in both."""

    here: Client
    there: Client
    clusters: tuple[Cluster, Cluster]
    namespace: str
    deps: Deps | None = None

    @property
    def connection(self) -> Connection:
        """A connection to the target, with all rights."""
        return load(str(self.clusters[1].kubeconfig))

    @contextlib.asynccontextmanager
    async def at_work(
        self,
        *controllers: Callable[[Deps], Controller[Any]],
        connection: Connection | None = None,
        lease: LeaderLease | None = None,
        **settings: Any,
    ) -> AsyncIterator[Target]:
        """Run the controllers with the target `eu` connected and ready."""
        async with running(self.clusters[0], *controllers, lease=lease, **{**SOON, **settings}) as deps:
            self.deps = deps
            target = await self.connect("eu", connection)
            yield target

    async def connect(self, name: str, connection: Connection | None = None) -> Target:
        """Connect another Target to the target cluster; return it once it is ready."""
        assert self.deps is not None
        target = await self.deps.targets.connect((self.namespace, name), connection or self.connection, "first")
        await until(lambda: target.ready)
        return target

    async def create(self, kind: Kind, name: str, **fields: Any) -> Raw:
        """Create an object in the source."""
        metadata = {"name": name, **fields.pop("metadata", {})}
        manifest = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **fields}
        return await self.here.create(kind, manifest, self.namespace)

    async def pod(
        self, name: str, *, target: str = "eu", annotations: dict[str, str] | None = None, **spec: Any
    ) -> Raw:
        """Create a proxy pod that is claimed for a target."""
        manifest = proxy_pod(elected(name, self.namespace, **spec), [names.finalizer(self.namespace, target)])
        manifest["metadata"]["annotations"] |= annotations or {}
        manifest["metadata"]["annotations"][names.ANNOTATION_CLAIM] = names.virtual_node(self.namespace, target)
        return await self.here.create(PODS, manifest)

    async def end(self, name: str) -> None:
        """Delete a proxy pod, and remove its finalizers."""
        await self.here.patch(PODS, name, {"metadata": {"finalizers": None}}, self.namespace)
        with contextlib.suppress(NotFound):
            await self.here.delete(PODS, name, self.namespace, grace=0)

    async def copy(self, kind: Kind, name: str, fits: Callable[[Raw], bool] = lambda copy: True) -> Raw:
        """Return the target's object of this name, once it fits."""

        async def probe() -> Raw | None:
            found = await self.there.get(kind, name, self.namespace)
            return found if fits(found) else None

        return await until(probe) or {}

    async def no_copy(self, kind: Kind, name: str) -> bool:
        """Return whether the target lacks the object now."""
        try:
            await self.there.get(kind, name, self.namespace)
        except NotFound:
            return True
        return False

    async def gone(self, kind: Kind, name: str) -> None:
        """Wait until the target lacks the object."""
        await until(lambda: self.no_copy(kind, name))


@contextlib.asynccontextmanager
async def pair_of(sandbox: Sandbox, here: Client, there: Client) -> AsyncIterator[Pair]:
    """Create an enabled namespace for the pair; delete it at the end."""
    name = f"test-{secrets.token_hex(4)}"
    for client in (here, there):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await until(functools.partial(client.get, SERVICE_ACCOUNTS, "default", name))
    await enable(here, name)
    try:
        yield Pair(here, there, (sandbox["here"], sandbox["there"]), name)
    finally:
        await asyncio.gather(*(clear(client, name) for client in (here, there)))
