"""Replaces Linkerd's multicluster controllers, which do not run: writes the status of Links, with their error
texts."""

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager
from typing import Any

from agent.api.kinds import LINKERD_LINKS, SERVICES, Kind
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from tests.background import PAUSE_SECONDS, background

Raw = dict[str, Any]

_TEXT = {"type": "string"}
KINDS: list[tuple[Kind, Raw | None]] = [
    (LINKERD_LINKS, {"type": "object", "properties": {"targetClusterName": _TEXT, "clusterCredentialsSecret": _TEXT}})
]


async def link(client: Client, namespace: str, cluster: str) -> None:
    """Create a Link as `linkerd multicluster link-gen` does."""
    head = {"apiVersion": LINKERD_LINKS.api_version, "kind": LINKERD_LINKS.name, "metadata": {"name": cluster}}
    spec = {"targetClusterName": cluster, "clusterCredentialsSecret": f"cluster-credentials-{cluster}"}
    await client.create(LINKERD_LINKS, {**head, "spec": spec}, namespace)


class Linkerd:
    """A double of the controllers in these clusters, by their names in Links."""

    def __init__(self, namespace: str, **clusters: Client) -> None:
        self.namespace = namespace
        self.clusters = clusters
        self.problems: dict[str, tuple[str, str]] = {}
        """Reason and message for every member, by the cluster whose Links report them."""
        self._made: set[tuple[str, str]] = set()
        """Mirrored Services that the double has created."""

    def at_work(self) -> AbstractAsyncContextManager[None]:
        return background(self._run())

    async def _run(self) -> None:
        while True:
            for name, client in self.clusters.items():
                with contextlib.suppress(Conflict, NotFound):
                    for each in await client.list(LINKERD_LINKS, self.namespace):
                        await self._follow(name, client, each)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _follow(self, name: str, client: Client, link: Raw) -> None:
        there = self.clusters.get(link["spec"]["targetClusterName"])
        members = (
            await there.list(SERVICES, self.namespace, labels="mirror.linkerd.io/federated=member") if there else []
        )
        told = [await self._mirrored(name, client, member) for member in members]
        if (link.get("status") or {}).get("federatedServices", []) != told:
            body = {"status": {"federatedServices": told}}
            await client.patch(LINKERD_LINKS, link["metadata"]["name"], body, self.namespace, sub="status")

    async def _mirrored(self, name: str, client: Client, member: Raw) -> Raw:
        service, problem = member["metadata"]["name"], self.problems.get(name)
        if member["spec"].get("clusterIP") == "None":
            problem = ("InvalidService", "Headless service cannot join federated service")
        local = {"group": "", "kind": "Service", "name": f"{service}-federated", "namespace": self.namespace}
        if problem is None:
            labels = {"mirror.linkerd.io/mirrored-service": "true"}
            ports = [{"name": each.get("name"), "port": each["port"]} for each in member["spec"]["ports"]]
            made = {"metadata": {"name": local["name"], "labels": labels}, "spec": {"ports": ports}}
            if (name, service) not in self._made:
                self._made.add((name, service))
                with contextlib.suppress(AlreadyExists):
                    await client.create(SERVICES, made, self.namespace)
        reason, message = problem or ("Mirrored", "")
        condition = {
            "type": "Mirrored",
            "status": "False" if problem else "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            **({} if problem else {"localRef": local}),
        }
        remote = {"group": "", "kind": "Service", "name": service, "namespace": self.namespace}
        return {"conditions": [condition], "controllerName": "linkerd.io/service-mirror", "remoteRef": remote}
