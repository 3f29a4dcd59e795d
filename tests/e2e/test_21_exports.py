"""Promise 21: Services exported by any cluster are imported in all clusters by the Multi-Cluster Services API
(--mcs)."""

from typing import Any

from agent.api.conditions import find_condition
from agent.api.kinds import ENDPOINT_SLICES, PODS, SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, SOURCES
from agent.api.names import mcs
from agent.api.roles import OPTIONAL_FEATURES
from tests.controllers.installed import installed
from tests.e2e import manifests, shared
from tests.e2e.faults.agents import agent_with
from tests.e2e.fleet import Fleet
from tests.e2e.shared import has

Raw = dict[str, Any]

TARGETS = ("us", "eu")
NONSENSE = [{"name": "http", "port": 9, "protocol": "TCP"}]
KINDS = [(SERVICE_EXPORTS, None), (SERVICE_IMPORTS, None)]


def told(found: Raw, type: str) -> tuple[Any, Any]:
    said = find_condition((found.get("status") or {}).get("conditions"), type) or {}
    return said.get("status"), said.get("reason")


def differs(export: Raw) -> bool:
    """Check that an export reports conflicting ports."""
    return told(export, "Conflict") == ("True", "PortConflict")


def of(*clusters: str) -> Any:
    """Return a check that a ServiceImport is ready and lists these clusters."""
    want = [{"cluster": each} for each in clusters]
    return lambda found: (
        told(found, "Ready") == ("True", "Ready") and found["status"].get("clusters") == want and found["spec"]["ips"]
    )


async def export(fleet: Fleet, cluster: str, namespace: str, port: int) -> None:
    """Create a local Service with a pod in a cluster, and export it."""
    client = fleet.clients[cluster]
    await client.create(PODS, manifests.pod("web", elect=None), namespace)
    ports = [{"name": "http", "port": port, "targetPort": 8080}]
    await client.create(SERVICES, shared.service("web", ports=ports), namespace)
    head = {"apiVersion": SERVICE_EXPORTS.api_version, "kind": SERVICE_EXPORTS.name}
    await client.create(SERVICE_EXPORTS, {**head, "metadata": {"name": "web"}}, namespace)


async def test_what_clusters_export_is_imported_in_all_of_them(fleet: Fleet, namespace: str) -> None:
    for cluster in TARGETS:
        await fleet.clients[cluster].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, namespace)
    async with (
        installed(list(fleet.clients.values()), KINDS),
        agent_with(fleet, "cd", ("--mcs", "--discovery-interval=2s")),
    ):
        await export(fleet, "us", namespace, 80)
        for cluster in shared.CLUSTERS:
            await has(fleet, cluster, SERVICE_IMPORTS, namespace, "web", of("us"))
            await endpoints(fleet, cluster, namespace, "us")
        await has(fleet, "us", SERVICE_EXPORTS, namespace, "web", lambda found: told(found, "Ready")[0] == "True")
        await export(fleet, "cd", namespace, 81)
        for cluster in ("us", "cd"):
            await has(fleet, cluster, SERVICE_EXPORTS, namespace, "web", differs)
        for cluster in shared.CLUSTERS:
            await has(fleet, cluster, SERVICE_IMPORTS, namespace, "web", of("cd", "us"))
            await endpoints(fleet, cluster, namespace, "cd", "us")
            # The agent reverts changes by others.
            await fleet.clients[cluster].patch(SERVICE_IMPORTS, "web", {"spec": {"ports": NONSENSE}}, namespace)
            await has(
                fleet, cluster, SERVICE_IMPORTS, namespace, "web", lambda found: found["spec"]["ports"] != NONSENSE
            )
        await fleet.clients["us"].delete(SERVICE_EXPORTS, "web", namespace)
        for cluster in shared.CLUSTERS:
            found = await has(fleet, cluster, SERVICE_IMPORTS, namespace, "web", of("cd"))
            assert [each["port"] for each in found["spec"]["ports"]] == [81]
            await endpoints(fleet, cluster, namespace, "cd")
        await fleet.source.delete(SERVICE_EXPORTS, "web", namespace)
        await shared.gone(fleet, SERVICE_IMPORTS, namespace, "web", shared.CLUSTERS)
        await shared.gone(fleet, SERVICES, namespace, mcs.derived("web"), shared.CLUSTERS)


async def endpoints(fleet: Fleet, cluster: str, namespace: str, *sources: str) -> None:
    """Wait until a cluster has a ready endpoint of each of these source clusters, and no others, by the API's
    labels."""

    async def known() -> bool:
        labels = f"{mcs.LABEL_MCS_SERVICE}=web"
        found = await fleet.clients[cluster].list(ENDPOINT_SLICES, namespace, labels=labels)
        ready = [
            slice["metadata"]["labels"].get(mcs.LABEL_SOURCE_CLUSTER)
            for slice in found
            for each in slice.get("endpoints") or ()
            if each["conditions"]["ready"]
        ]
        return sorted(map(str, ready)) == sorted(sources)

    await fleet.until(f"{cluster} knows endpoints of {sources}", known, about=namespace)
