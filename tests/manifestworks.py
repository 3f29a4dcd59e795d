"""ManifestWorks on a real API server, and a double of the work agents of its clusters."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent.api.conditions import set_condition
from agent.api.crds.works import hub_crds
from agent.api.kinds import CRDS, MANIFEST_WORKS
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from hack.lab.sandbox.objects import apply
from tests.background import background
from tests.waiting import until

Raw = dict[str, Any]

CLEANUP = "cluster.open-cluster-management.io/manifest-work-cleanup"
"""Finalizer of a work agent on each ManifestWork."""


async def install(client: Client) -> None:
    """Install the CRD of ManifestWorks."""
    await apply(client, CRDS, hub_crds()[0])
    await until(lambda: _served(client))


async def _served(client: Client) -> bool:
    await client.list(MANIFEST_WORKS)
    return True


@dataclass
class WorkAgents:
    """Double of the work agents of some clusters: it applies every manifest at once, unless configured otherwise."""

    client: Client
    clusters: list[str]
    silent: set[str] = field(default_factory=set)
    """Clusters whose agents do nothing."""
    refused: dict[str, str] = field(default_factory=dict)
    """Names of manifests that cannot be applied, with the reason."""
    ready: dict[str, int] = field(default_factory=dict)
    """Number of ready pods by workload; all pods of other workloads are ready."""

    async def run(self) -> None:
        """Reconcile everything repeatedly."""
        while True:
            for cluster in self.clusters:
                if cluster not in self.silent:
                    for work in await self.client.list(MANIFEST_WORKS, cluster):
                        with contextlib.suppress(NotFound, Conflict):
                            await self._look_after(work)
            await asyncio.sleep(0.1)

    async def _look_after(self, work: Raw) -> None:
        metadata = work["metadata"]
        held = CLEANUP in (metadata.get("finalizers") or ())
        if metadata.get("deletionTimestamp"):
            await self._finalizers(metadata, [each for each in metadata.get("finalizers") or () if each != CLEANUP])
            return
        if not held:
            await self._finalizers(metadata, [*(metadata.get("finalizers") or ()), CLEANUP])
            return
        status = self.status(work)
        if status != work.get("status"):
            body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
            await self.client.patch(MANIFEST_WORKS, metadata["name"], body, metadata["namespace"], sub="status")

    async def _finalizers(self, metadata: Raw, finalizers: list[str]) -> None:
        body = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
        await self.client.patch(MANIFEST_WORKS, metadata["name"], body, metadata["namespace"])

    def status(self, work: Raw) -> Raw:
        """Return the status of a ManifestWork."""
        manifests = work["spec"]["workload"].get("manifests") or []
        told = [self._told(work, number, each) for number, each in enumerate(manifests)]
        failed = sum(each["metadata"]["name"] in self.refused for each in manifests)
        generation = work["metadata"]["generation"]
        found: list[Raw] = list((work.get("status") or {}).get("conditions") or ())
        now = datetime.now(UTC)
        if failed:
            message = "Failed to apply manifest work"
            found = set_condition(found, "Applied", "False", "AppliedManifestWorkFailed", message, now, generation)
        else:
            message = "Apply manifest work complete"
            found = set_condition(found, "Applied", "True", "AppliedManifestWorkComplete", message, now, generation)
        message = f"{failed} of {len(told)} resources are not available" if failed else "All resources are available"
        reason, is_there = ("ResourcesNotAvailable", "False") if failed else ("ResourcesAvailable", "True")
        found = set_condition(found, "Available", is_there, reason, message, now, generation)  # type: ignore[arg-type]
        return {"conditions": found, "resourceStatus": {"manifests": told}}

    def _told(self, work: Raw, number: int, manifest: Raw) -> Raw:
        metadata = manifest["metadata"]
        group, _, version = manifest["apiVersion"].rpartition("/")
        meta = {
            **{"ordinal": number, "group": group, "version": version, "kind": manifest["kind"]},
            **{"resource": f"{manifest['kind'].lower()}s", "name": metadata["name"]},
            **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
        }
        manifests = ((work.get("status") or {}).get("resourceStatus") or {}).get("manifests") or []
        found: list[Raw] = next((each["conditions"] for each in manifests if each["resourceMeta"] == meta), [])
        now = datetime.now(UTC)
        if metadata["name"] in self.refused:
            message = f"Failed to apply manifest: {self.refused[metadata['name']]}"
            found = set_condition(found, "Applied", "False", "AppliedManifestFailed", message, now)
            message = "Resource is not available"
            found = set_condition(found, "Available", "False", "ResourceNotAvailable", message, now)
            return {"resourceMeta": meta, "conditions": found}
        found = set_condition(found, "Applied", "True", "AppliedManifestComplete", "Apply manifest complete", now)
        found = set_condition(found, "Available", "True", "ResourceAvailable", "Resource is available", now)
        values = self._values(work, manifest)
        return {"resourceMeta": meta, "conditions": found, **({"statusFeedback": {"values": values}} if values else {})}

    def _values(self, work: Raw, manifest: Raw) -> list[Raw]:
        """Return feedback values; only the number of ready pods is supported."""
        metadata = manifest["metadata"]
        asked = {
            path["name"]
            for config in work["spec"].get("manifestConfigs") or ()
            if config["resourceIdentifier"]["name"] == metadata["name"]
            and config["resourceIdentifier"]["resource"] == f"{manifest['kind'].lower()}s"
            for rule in config.get("feedbackRules") or ()
            for path in rule["jsonPaths"]
        }
        if "readyReplicas" not in asked:
            return []
        ready = self.ready.get(metadata["name"], manifest["spec"].get("replicas", 1))
        return [{"name": "readyReplicas", "fieldValue": {"type": "Integer", "integer": ready}}]


@contextlib.asynccontextmanager
async def work_agents(client: Client, *clusters: str) -> AsyncIterator[WorkAgents]:
    """Run the clusters' work agents; at the end they remove their finalizers."""
    agents = WorkAgents(client, list(clusters))
    try:
        async with background(agents.run()):
            yield agents
    finally:
        for cluster in clusters:
            for work in await client.list(MANIFEST_WORKS, cluster):
                name = work["metadata"]["name"]
                with contextlib.suppress(NotFound):
                    await client.patch(MANIFEST_WORKS, name, {"metadata": {"finalizers": None}}, cluster)
                    await client.delete(MANIFEST_WORKS, name, cluster)
