"""Webhooks under test: replicas in this process, called by a real API server, and the objects around them."""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
    Kind,
)
from agent.base.clock import SystemClock
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import AlreadyExists, NotFound, ServerError, from_status
from agent.kube.session import Session
from hack.lab.sandbox import Cluster
from tests.waiting import until
from webhook.app import Webhook
from webhook.settings import parse

Raw = dict[str, Any]

CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


def host_facing(cluster: Cluster) -> str:
    """Return the address of this machine that the cluster's API server can reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((cluster.address, 9))
        return str(probe.getsockname()[0])


def free_port(host: str) -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


@dataclass
class Place:
    """Environment of one test: a cluster, a labelled namespace, a configuration and a Secret of its own."""

    cluster: Cluster
    client: Client
    namespace: str

    def flags(self, *extra: str, port: int | None = None) -> list[str]:
        """Return the command line of a replica."""
        host = host_facing(self.cluster)
        port = port or free_port(host)
        return [
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--bind={host}:{port}",
            f"--url=https://{host}:{port}",
            f"--tuning=configuration-name={self.namespace}",
            f"--namespace={self.namespace}",
            "--health-address=127.0.0.1:0",
            *extra,
        ]

    @contextlib.asynccontextmanager
    async def replica(self, *extra: str, port: int | None = None, ready: bool = True) -> AsyncIterator[Webhook]:
        """Run a replica in this process; `ready` waits until the API server calls it."""
        settings = parse([*self.flags("--register", port=port), *extra], {})
        async with Session(load(settings.kubeconfig)) as session:
            webhook = Webhook(settings, Client(session), SystemClock())
            task = asyncio.create_task(webhook.run())
            try:
                if ready:
                    await until(lambda: self.is_ready(webhook), what="replica ready")
                    await until(self._is_called, what="API server calls the webhook")
                if ready and settings.register:
                    await until(self.has_validation, what="ValidatingWebhookConfiguration made")
                yield webhook
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    @contextlib.asynccontextmanager
    async def user(self, user: str, rules: list[Raw]) -> AsyncIterator[None]:
        """Give a user rights in all namespaces."""
        name = self.namespace
        await self.client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
        bound = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": user}],
        }
        await self.client.create(CLUSTER_ROLE_BINDINGS, bound)
        try:
            yield
        finally:
            await self.client.delete(CLUSTER_ROLE_BINDINGS, name)
            await self.client.delete(CLUSTER_ROLES, name)

    async def is_ready(self, webhook: Webhook) -> bool:
        """Return whether /readyz would report success."""
        keeper = webhook.certificate_loop
        checks = (keeper.certificate_problem, keeper.registration_problem, webhook.targets.problem)
        return not any(check() for check in checks)

    async def mutates(self) -> bool:
        """Return whether the API server already sends elected pods to the webhook, by a dry run."""
        made = await self.create(elected(), dry_run=True)
        return bool(made["spec"]["schedulerName"] == "admiralty-proxy")

    async def _is_called(self) -> bool:
        """Return `mutates`, or False on an error: the API server may briefly call the previous address, which
        does not answer."""
        with contextlib.suppress(ServerError):
            return await self.mutates()
        return False

    async def create(self, pod: Raw, *, dry_run: bool = False) -> Raw:
        """Create a pod in the namespace."""
        params = {"dryRun": "All"} if dry_run else None
        body = msgspec.json.encode(pod)
        made = await self.client.session.request("POST", PODS.path(self.namespace), params=params, body=body)
        return decoded(made)

    async def warnings(self, kind: Kind, obj: Raw, *, user: str = "") -> list[str]:
        """Return the API server's warnings on the creation of an object (dry run), as the given user if any."""
        connection = load(str(self.cluster.kubeconfig))
        headers = {"Content-Type": "application/json"}
        if authorization := await connection.auth.header():
            headers["Authorization"] = authorization
        if user:
            headers["Impersonate-User"] = user
        url = connection.server + kind.path(self.namespace)
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=connection.tls or False)) as session,
            session.post(url, params={"dryRun": "All"}, data=msgspec.json.encode(obj), headers=headers) as response,
        ):
            if response.status != 201:
                raise from_status(await response.read(), response.status)
            # RFC 9110: code, agent, and the text in quotes.
            return [text.partition('"')[2].rpartition('"')[0] for text in response.headers.getall("Warning", [])]

    async def secret(self) -> dict[str, bytes]:
        """Return the data of the Secret that replicas share; {} if it does not exist."""
        try:
            secret = await self.client.get(SECRETS, "multicluster-scheduler-webhook-cert", self.namespace)
        except NotFound:
            return {}
        return {key: base64.b64decode(value) for key, value in secret["data"].items()}

    async def configuration(self) -> Raw:
        """Return the MutatingWebhookConfiguration."""
        return await self.client.get(MUTATING_WEBHOOKS, self.namespace)

    async def validation(self) -> Raw:
        """Return the ValidatingWebhookConfiguration."""
        return await self.client.get(VALIDATING_WEBHOOKS, self.namespace)

    async def has_validation(self) -> bool:
        """Return whether a ValidatingWebhookConfiguration exists."""
        with contextlib.suppress(NotFound):
            return bool(await self.validation())
        return False

    async def trusted(self) -> bytes:
        """Return the CA that the API server trusts in every entry; empty while the entries differ."""
        entries = (await self.configuration())["webhooks"]
        with contextlib.suppress(NotFound):
            entries += (await self.validation())["webhooks"]
        bundles = {entry["clientConfig"].get("caBundle", "") for entry in entries}
        return base64.b64decode(bundles.pop()) if len(bundles) == 1 else b""

    async def prepare(self) -> None:
        """Label the namespace so that its pods can be elected and created."""
        for kind in CONFIGURATIONS:
            for left in await self.client.list(kind):
                # A killed test leaves its configuration, which would refuse the elected pods of this one.
                if left["metadata"]["name"].startswith("test-"):
                    await self.client.delete(kind, left["metadata"]["name"])
        label = {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}}
        await self.client.patch(NAMESPACES, self.namespace, label)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        with contextlib.suppress(AlreadyExists):
            await self.client.create(SERVICE_ACCOUNTS, account, self.namespace)

    async def clean(self) -> None:
        """Remove objects that would outlive the namespace or block its deletion."""
        for name in (self.namespace, f"{self.namespace}-b"):
            for kind in CONFIGURATIONS:
                with contextlib.suppress(NotFound):
                    await self.client.delete(kind, name)
        for pod in await self.client.list(PODS, self.namespace):
            with contextlib.suppress(NotFound):
                await self.client.patch(
                    PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, self.namespace
                )


def pod(name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> Raw:
    """Return a small pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"containers": [{"name": "main", "image": "nginx"}], **spec},
    }


def elected(name: str = "web", annotations: Mapping[str, str] | None = None, **spec: Any) -> Raw:
    """Return a small elected pod."""
    return pod(name, {"multicluster.admiralty.io/elect": "", **(annotations or {})}, **spec)


def decoded(body: bytes) -> Raw:
    """Decode a response's body."""
    value: Raw = msgspec.json.decode(body)
    return value
