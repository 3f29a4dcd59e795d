"""The kinds of the Multi-Cluster Services API as SIG Multicluster publishes them, and two clusters that serve
them."""

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CRDS, ENDPOINT_SLICES, PODS, SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, TARGETS
from agent.api.names import mcs
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.errors import NotFound
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.imports import ServiceImportsController
from hack.lab.sandbox import golang
from tests.controllers.installed import is_served, uninstalled
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links
from tests.controllers.starting import running
from tests.controllers.target_links import target
from tests.waiting import until

Raw = dict[str, Any]

MODULE, SUM = "sigs.k8s.io/mcs-api@v0.5.2", "h1:N+vrRiCIb0WJ0dxbBo7VfNv2WJigOHEo4gsLXpffVs8="
CONTROLLERS = (ServiceImportsController, EndpointsController, GlobalServices)
SETTINGS: Raw = {"mcs": True, "discovery_interval": 1.0}
NAME = "hello"
PORTS = [{"name": "tcp", "port": 42, "protocol": "TCP"}, {"name": "udp", "port": 42, "protocol": "UDP"}]


async def published(folder: Path) -> list[Raw]:
    """Return the CRDs from the Go module that contains them."""
    go = await golang.installed()
    if go is None:
        pytest.skip("the CRDs are in a Go module: install Go")
    command, environment = (go.path, "mod", "download", "-json", MODULE), {**os.environ, **go.environment}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment, stdout=pipe)
    said = json.loads((await process.communicate())[0])
    assert said.get("Sum") == SUM, said
    files = sorted((Path(said["Dir"]) / "config/crd").glob("*.yaml"))
    assert len(files) == 2
    return [yaml.safe_load(file.read_text()) for file in files]


@contextlib.asynccontextmanager
async def served(clients: Sequence[Client], crds: list[Raw]) -> AsyncIterator[None]:
    """Serve these kinds in clusters while the context lasts."""
    try:
        for client in clients:
            for crd in crds:
                await client.create(CRDS, crd)
        for client in clients:
            for kind in (SERVICE_EXPORTS, SERVICE_IMPORTS):
                await until(functools.partial(is_served, client, kind))
        yield
    finally:
        await uninstalled(clients, [crd["metadata"]["name"] for crd in crds])


class Exported:
    """A Service `hello` that clusters export."""

    def __init__(self, pair: Pair, stack: contextlib.AsyncExitStack | None = None) -> None:
        self.pair = pair
        self._stack = stack or contextlib.AsyncExitStack()
        self.clients = (pair.here, pair.there)

    async def deploy(self, client: Client, *, name: str = NAME, **spec: Any) -> Raw:
        """Create the Service in a cluster."""
        fields = {"selector": {"app": NAME}, "ports": PORTS, **spec}
        service = {"metadata": {"name": name}, "spec": fields}
        return await client.create(SERVICES, service, self.pair.namespace)

    async def run(self, client: Client, name: str = NAME, **spec: Any) -> None:
        """Create a pod behind the Service."""
        container = {"name": "web", "image": "web", "ports": [{"containerPort": 42}]}
        pod = {"metadata": {"name": name, "labels": {"app": NAME}}, "spec": {"containers": [container], **spec}}
        await client.create(PODS, pod, self.pair.namespace)

    async def export(self, client: Client, *, name: str = NAME, **spec: Any) -> None:
        """Export the Service from a cluster."""
        export = {"metadata": {"name": name}, "spec": spec}
        export |= {"apiVersion": SERVICE_EXPORTS.api_version, "kind": SERVICE_EXPORTS.name}
        await client.create(SERVICE_EXPORTS, export, self.pair.namespace)

    async def unexport(self, client: Client) -> None:
        """Delete the ServiceExport."""
        await client.delete(SERVICE_EXPORTS, NAME, self.pair.namespace)

    async def imported(self, client: Client, fits: Callable[[Raw], bool] = lambda found: True) -> Raw:
        """Return the ServiceImport of a cluster, once it fits."""

        async def probe() -> Raw | None:
            found = await client.get(SERVICE_IMPORTS, NAME, self.pair.namespace)
            last.append(found)
            return found if fits(found) else None

        last: list[Raw] = []
        try:
            return await until(probe) or {}
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[-1:]}") from None

    async def is_imported(self, client: Client) -> bool:
        """Return whether a cluster has a ServiceImport now."""
        try:
            await client.get(SERVICE_IMPORTS, NAME, self.pair.namespace)
        except NotFound:
            return False
        return True

    async def gone(self, client: Client) -> None:
        """Wait until a cluster has no ServiceImport."""

        async def probe() -> bool:
            return not await self.is_imported(client)

        await until(probe)

    async def told(self, client: Client, type: str, status: str, reason: str = "", *, name: str = NAME) -> str:
        """Return the message of a condition of a cluster's ServiceExport, once it has this status and reason."""

        async def probe() -> Raw | None:
            export = await client.get(SERVICE_EXPORTS, name, self.pair.namespace)
            said = dict(find_condition((export.get("status") or {}).get("conditions"), type) or {})
            last.append(said)
            return said if said.get("status") == status and reason in ("", said["reason"]) else None

        last: list[Raw] = []
        try:
            return str((await until(probe) or {})["message"])
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[-1:]}") from None

    async def slices(self, client: Client, *sources: str) -> list[Raw]:
        """Return a cluster's EndpointSlices with the labels of the API, once they are from these clusters."""

        async def probe() -> list[Raw] | None:
            labels = f"{mcs.LABEL_MCS_SERVICE}={NAME}"
            found = await client.list(ENDPOINT_SLICES, self.pair.namespace, labels=labels)
            with_endpoints = [each for each in found if each.get("endpoints")]
            have = sorted(each["metadata"]["labels"].get(mcs.LABEL_SOURCE_CLUSTER, "") for each in with_endpoints)
            last.append([(each["metadata"]["name"], each["metadata"]["labels"]) for each in with_endpoints])
            return with_endpoints or [{}] if have == sorted(sources) else None

        last: list[Any] = []
        try:
            return await until(probe) or []
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[-1:]}") from None

    @contextlib.asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Restart the agent without access to the target; at the end, restart it with access."""
        await self._stack.aclose()
        async with running(self.pair.clusters[0], *CONTROLLERS, **SETTINGS):
            yield
        await self._stack.enter_async_context(self.pair.at_work(*CONTROLLERS, **SETTINGS))

    async def derived(self, client: Client) -> Raw:
        """Return the derived Service of a cluster."""
        return await until(functools.partial(client.get, SERVICES, mcs.derived(NAME), self.pair.namespace)) or {}


@contextlib.asynccontextmanager
async def implemented(pair: Pair, connection: Connection | None = None) -> AsyncIterator[Exported]:
    """Run our implementation between both clusters, with the driver `endpointslices`."""
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    try:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(pair.at_work(*CONTROLLERS, connection=connection, **SETTINGS))
            assert pair.deps is not None
            await Links(pair, pair.deps.cluster_uid).shared_by("True", "EndpointSlices")
            yield Exported(pair, stack)
    finally:
        await pair.here.delete(TARGETS, "eu", pair.namespace)
        for client in (pair.here, pair.there):
            for kind in (SERVICE_EXPORTS, SERVICE_IMPORTS):
                for each in await client.list(kind, pair.namespace):
                    await client.delete(kind, each["metadata"]["name"], pair.namespace)
            for label in (mcs.LABEL_DERIVED, names.LABEL_PARENT_CLUSTER_UID):
                for each in await client.list(SERVICES, pair.namespace, labels=label):
                    await client.delete(SERVICES, each["metadata"]["name"], pair.namespace)
