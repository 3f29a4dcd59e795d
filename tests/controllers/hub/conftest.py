"""A hub on a real API server: its objects, and its controllers with exactly the rights that the chart grants."""

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
import yaml

from agent.api import ownroles
from agent.api.conditions import condition_of
from agent.api.crds.addons import hub_crds
from agent.api.hubroles import hub_objects, kind_of
from agent.api.kinds import (
    CERTIFICATE_REQUESTS,
    CLUSTER_MANAGEMENT_ADDONS,
    EVENTS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    SECRETS,
)
from agent.clusters.deps import Deps
from agent.hub.heartbeats import HeartbeatController
from agent.hub.registration import RegistrationController
from agent.hub.requests import RequestController
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.manifests import user
from hack.lab.sandbox.objects import account_token, apply, connect
from tests import manifestworks, ocm
from tests.background import background
from tests.controllers.starting import running
from tests.controllers.target_links import kubeconfig
from tests.registrationagent import LEASE, RegistrationAgent
from tests.waiting import defined, until

Raw = dict[str, Any]

CONTROLLERS = (RegistrationController, RequestController, HeartbeatController)
ACCEPTED, AVAILABLE = "HubAcceptedManagedCluster", "ManagedClusterConditionAvailable"


@dataclass
class Hub:
    """The hub's API server with all rights, and what tests do as its administrator."""

    client: Client
    cluster: Cluster
    """The cluster with the kubeconfig of the agent's account."""
    entry: Raw
    """Entry of the cluster in a kubeconfig."""
    admin: Path
    """Kubeconfig with all rights."""
    names: list[str] = field(default_factory=list)

    def name(self, short: str = "us") -> str:
        """Return a name of a cluster that no other test uses."""
        self.names.append(f"{short}-{secrets.token_hex(3)}")
        return self.names[-1]

    @contextlib.asynccontextmanager
    async def at_work(self, *controllers: Callable[[Deps], Any], **settings: Any) -> AsyncIterator[Deps]:
        """Run the controllers of the hub, by default all."""
        given = {"placement": "serve", "hub": True, "discovery_interval": 1.0, **settings}
        async with running(self.cluster, *(controllers or CONTROLLERS), **given) as deps:
            yield deps

    async def agent(self, cluster: str, **more: Any) -> RegistrationAgent:
        """Return an agent with a bootstrap token for its name alone."""
        return RegistrationAgent(cluster, self.entry, {"token": await self.token(cluster)}, **more)

    async def token(self, cluster: str, accepts: str = "") -> str:
        """Return a new bootstrap token for a cluster."""
        ident, secret = secrets.token_hex(3), secrets.token_hex(8)
        group = "system:bootstrappers:managedcluster"
        data = {
            "token-id": ident,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": f"{group},{group}:{cluster}" if cluster else group,
        }
        metadata = {"name": f"bootstrap-token-{ident}", "annotations": {"multicluster/accepts": accepts}}
        body = {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        await self.client.create(SECRETS, body, "kube-system")
        return f"{ident}.{secret}"

    async def get(self, cluster: str) -> Raw:
        """Return a ManagedCluster."""
        return await self.client.get(MANAGED_CLUSTERS, cluster)

    async def accept(self, cluster: str, *, accepts: bool = True) -> None:
        """Accept or deny a cluster."""
        await self.client.patch(MANAGED_CLUSTERS, cluster, {"spec": {"hubAcceptsClient": accepts}})

    async def approve(self, request: str) -> None:
        """Approve a certificate request, as `kubectl certificate approve` does."""
        found = await self.client.get(CERTIFICATE_REQUESTS, request)
        approved = {"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "by the test"}
        await self.client.update(CERTIFICATE_REQUESTS, {**found, "status": {"conditions": [approved]}}, sub="approval")

    async def condition(self, cluster: str, type: str, status: str, reason: str = "") -> Raw:
        """Return a condition of a ManagedCluster, once it has this status and reason."""

        async def probe() -> Raw | None:
            found = condition_of(await self.get(cluster), type)
            fits = found is not None and found["status"] == status and reason in ("", found["reason"])
            return dict(found) if found is not None and fits else None

        return await until(probe, what=f"{type}={status} {reason} of {cluster}")

    async def event(self, about: str, reason: str, text: str = "") -> Raw:
        """Return an event about an object, once it exists."""

        async def probe() -> Raw | None:
            found = await self.client.list(EVENTS, fields=f"involvedObject.name={about},reason={reason}")
            return next((each for each in found if text in each["message"]), None)

        return await until(probe, what=f"event {reason} about {about}")

    async def joined(self, cluster: str, **more: Any) -> RegistrationAgent:
        """Return the agent of a cluster that has joined: accepted, with its certificate. The hub must be at work."""
        agent = await self.agent(cluster, **more)
        await agent.register()
        request = await agent.request()
        await self.accept(cluster)
        await self.condition(cluster, ACCEPTED, "True")
        await self.approve(request)
        await agent.signed(request)
        return agent

    @contextlib.asynccontextmanager
    async def serving(self, agent: RegistrationAgent) -> AsyncIterator[None]:
        """Run an agent that has joined; the block begins when it has reported its state and renewed its lease."""
        before = (await until(lambda: self.client.get(LEASES, LEASE, agent.cluster)))["metadata"]["resourceVersion"]

        async def renewed() -> bool:
            lease = await self.client.get(LEASES, LEASE, agent.cluster)
            return bool(lease["metadata"]["resourceVersion"] != before)

        async with background(agent.serve()):
            await self.condition(agent.cluster, AVAILABLE, "True")
            await until(renewed)
            yield


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def hub_cluster(two_clusters: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    """Install a hub, and yield the kubeconfig of its agent."""
    cluster = two_clusters["here"]
    client = connect(cluster.kubeconfig, name="hub")
    async with client.session:
        await ocm.install(client)
        await manifestworks.install(client)
        await asyncio.gather(*(defined(client, crd) for crd in hub_crds()))
        for kind in (MANAGED_CLUSTER_ADDONS, CLUSTER_MANAGEMENT_ADDONS):
            await until(functools.partial(_served, client, kind))
        token = await account_token(client, ownroles.AGENT)
        for obj in hub_objects(user("agent")):
            await apply(client, kind_of(obj), obj)
        path = tmp_path_factory.mktemp("hub") / "kubeconfig"
        path.write_text(kubeconfig(cluster, user={"token": token}))
        yield path


@pytest_asyncio.fixture
async def hub(two_clusters: Sandbox, hub_cluster: Path) -> AsyncIterator[Hub]:
    """A hub without running controllers. Its clusters are deleted afterwards."""
    cluster = two_clusters["here"]
    client = connect(cluster.kubeconfig, name="hub")
    entry = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    async with client.session:
        found = Hub(client, cast("Cluster", SimpleNamespace(kubeconfig=hub_cluster)), entry, cluster.kubeconfig)
        yield found
        for name in found.names:
            with contextlib.suppress(NotFound):
                await client.patch(MANAGED_CLUSTERS, name, {"metadata": {"finalizers": None}})
                await client.delete(MANAGED_CLUSTERS, name)


async def _served(client: Client, kind: Any) -> bool:
    await client.list(kind)
    return True
