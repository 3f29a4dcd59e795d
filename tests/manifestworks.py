"""Open Cluster Management's ManifestWorks on a real API server, and a double of the work agents of its
clusters.

The schema is a rewrite with those fields, defaults and limits that matter to writers of ManifestWorks.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent.api.conditions import set_condition
from agent.api.crds.definition import crd
from agent.api.crds.schema import CONDITION, Schema, fields, items, resource, text, whole
from agent.api.kinds import CRDS, MANIFEST_WORKS
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from hack.lab.sandbox.objects import apply
from tests.background import background
from tests.waiting import until

Raw = dict[str, Any]

CLEANUP = "cluster.open-cluster-management.io/manifest-work-cleanup"
"""Finalizer of a work agent on each ManifestWork."""


def definition() -> Raw:
    """Return the CRD."""
    manifest: Schema = {
        "type": "object",
        "description": "An object of Kubernetes, whole.",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    workload = fields("What is applied.", {"manifests": items("All objects.", manifest)})
    deletion = fields(
        "What becomes of it afterwards.",
        {"propagationPolicy": text("How.", default="Foreground", enum=["Foreground", "Orphan", "SelectivelyOrphan"])},
    )
    spec = fields(
        "Manifests, and how they are applied.",
        {"workload": workload, "manifestConfigs": items("Of single manifests.", _config()), "deleteOption": deletion},
    )
    return crd(MANIFEST_WORKS, [], resource("Manifests for one cluster.", {"spec": spec, "status": _status()}), [])


def _config() -> Schema:
    named = {each: text("Of the manifest.") for each in ("group", "resource", "namespace", "name")}
    path = fields(
        "One field.", {each: text("Of it.") for each in ("name", "path", "version")}, required=["name", "path"]
    )
    kinds = {"type": text("Which fields.", enum=["WellKnownStatus", "JSONPaths"])}
    rule = fields("What is told.", {**kinds, "jsonPaths": items("Fields.", path)}, required=["type"])
    applying = fields("How.", {"force": {"type": "boolean"}, "fieldManager": text("Who.", pattern="^work-agent")})
    strategies = ["Update", "CreateOnly", "ServerSideApply", "ReadOnly"]
    strategy = fields(
        "How it is changed.",
        {"type": text("Which way.", default="Update", enum=strategies), "serverSideApply": applying},
        required=["type"],
    )
    return fields(
        "One manifest.",
        {
            "resourceIdentifier": fields("Which.", named, required=["name", "resource"]),
            "updateStrategy": strategy,
            "feedbackRules": items("What of its status is told.", rule),
        },
        required=["resourceIdentifier"],
    )


def _status() -> Schema:
    meta = {each: text("Of the object.") for each in ("group", "version", "kind", "resource", "namespace", "name")}
    kinds = ["Integer", "String", "Boolean", "JsonRaw"]
    value = fields(
        "One value.",
        {"type": text("Which.", enum=kinds), "string": text("One."), "integer": whole("One.", "int64")},
        required=["type"],
    )
    told = fields("A field.", {"name": text("Its name."), "fieldValue": value}, required=["name", "fieldValue"])
    manifest = fields(
        "One manifest.",
        {
            "resourceMeta": fields("Which.", {**meta, "ordinal": whole("Its number.")}),
            "conditions": items("Of it.", CONDITION),
            "statusFeedback": fields("Of its status.", {"values": items("Fields.", told)}),
        },
    )
    return fields(
        "What the work agent tells.",
        {
            "conditions": items("Of all.", CONDITION),
            "resourceStatus": fields("Of each.", {"manifests": items("Manifests.", manifest)}),
        },
    )


async def install(client: Client) -> None:
    """Install the CRD of ManifestWorks."""
    await apply(client, CRDS, definition())
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
