"""Promise 21: the status of a ServiceLink shows which clusters' callers reach which clusters' endpoints."""

import json
from typing import Any

import pytest
import yaml

from agent.api.conditions import find_condition
from agent.api.crds import ac3_crds
from agent.api.kinds import CRDS, ENDPOINT_SLICES, MULTI_CLUSTER_NETWORKS, SERVICE_LINKS, SERVICES
from agent.api.names import PREFIX, PROXY_CONSTRAINTS
from hack.lab.sandbox.objects import apply
from tests.api.test_ac3_crd import EXAMPLE
from tests.cli.command import flotilla
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, REGION
from tests.e2e.shared import has, known_everywhere
from tests.waiting import unserved

Raw = dict[str, Any]


def says(link: Raw, status: str, reason: str) -> bool:
    found = find_condition((link.get("status") or {}).get("conditions"), "Ready") or {}
    return (found.get("status"), found.get("reason")) == (status, reason)


def reached(link: Raw) -> dict[str, list[str]]:
    """Return the clusters whose endpoints each cluster reaches with the driver `endpointslices`."""
    found: dict[str, list[str]] = {}
    for row in (link.get("status") or {}).get("clusters") or ():
        if row["driver"] == "endpointslices" and row["ready"] == "True":
            found.setdefault(row["cluster"], []).extend(row["from"])
    return {cluster: sorted(sources) for cluster, sources in found.items()}


async def test_a_shared_service_says_who_reaches_whom_and_a_link_narrows_it(fleet: Fleet, namespace: str) -> None:
    await shared.web(fleet, namespace, 6)
    await known_everywhere(fleet, namespace, "web", 6)
    everybody = {"cd": ["eu", "us"], "us": ["eu"], "eu": ["us"]}
    link = await has(
        fleet,
        "cd",
        SERVICE_LINKS,
        namespace,
        "web",
        lambda found: says(found, "True", "Ready") and reached(found) == everybody,
    )
    service = await fleet.source.get(SERVICES, "web", namespace)
    assert [owner["uid"] for owner in link["metadata"]["ownerReferences"]] == [service["metadata"]["uid"]]

    where = ("-n", namespace, "--kubeconfig", str(fleet.sandbox["cd"].kubeconfig))
    code, output, _ = await flotilla("links", "web", *where)
    assert code == 0
    assert sorted(line.split()[1:5] for line in output.splitlines() if line.startswith("web")) == [
        ["cd", "eu", "endpointslices", "True"],
        ["cd", "us", "endpointslices", "True"],
        ["eu", "us", "endpointslices", "True"],
        ["us", "eu", "endpointslices", "True"],
    ]

    spec = {"from": ["us"], "to": [{"cluster": "local-cluster"}]}
    await fleet.source.patch(SERVICE_LINKS, "web", {"spec": spec}, namespace)
    await has(fleet, "cd", SERVICE_LINKS, namespace, "web", lambda found: reached(found) == {"cd": ["us"]})

    async def only_its_own() -> bool:
        return {cluster: await shared.ready(fleet, namespace, "web", cluster) for cluster in ("cd", "us", "eu")} == {
            "cd": await own(fleet, namespace, "us"),
            "us": await own(fleet, namespace, "us"),
            "eu": await own(fleet, namespace, "eu"),
        }

    await fleet.until("each cluster knows its own, and cd those of us", only_its_own, about=namespace)
    await fleet.source.delete(SERVICES, "web", namespace)
    await shared.gone(fleet, SERVICE_LINKS, namespace, "web", ("cd",))
    await shared.no_slices(fleet, namespace, "web", ("cd", "us", "eu"))


async def own(fleet: Fleet, namespace: str, cluster: str) -> list[str]:
    """Return the addresses of a cluster's local delegates from its own EndpointSlices."""
    found = await fleet.clients[cluster].list(
        ENDPOINT_SLICES, namespace, labels="endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
    )
    return sorted(a for slice in found for each in slice.get("endpoints") or () for a in each["addresses"])


@pytest.mark.full("A variant of the test of a link, written as AC3 writes it.")
async def test_a_network_of_ac3_works_as_it_is_written_and_leaves_nothing(fleet: Fleet) -> None:
    source, example = fleet.source, yaml.safe_load(EXAMPLE.read_text())
    await apply(source, CRDS, *ac3_crds())
    # The agent discovers new kinds only periodically. A restart discovers them at once, as after installing the
    # chart.
    await fleet.sandbox.kill("cd", "agent")
    await fleet.sandbox.start("cd", "agent")
    try:
        async with fleet.namespace(name=example["metadata"]["namespace"]) as namespace:
            backend = manifests.deployment("hello-backend", 2)
            template = backend["spec"]["template"]["metadata"]
            in_us = json.dumps({"nodeSelector": {REGION: "us"}})
            template["annotations"][PREFIX + PROXY_CONSTRAINTS] = in_us
            ports = [{"name": "http", "port": 8080}, {"name": "admin", "port": 9090}]
            service = shared.service("backend", selector=template["labels"], ports=ports)
            await source.create(SERVICES, service, namespace)
            await source.create(DEPLOYMENTS, backend, namespace)
            await fleet.running(namespace, "hello-backend", 2)
            await source.create(MULTI_CLUSTER_NETWORKS, example)
            await has(
                fleet, "cd", MULTI_CLUSTER_NETWORKS, namespace, "hello", lambda found: says(found, "True", "Ready")
            )
            (link,) = await source.list(SERVICE_LINKS, namespace, labels="multicluster/ac3-network-uid")
            assert reached(link) == {"eu": ["us"]}
            assert await shared.ready(fleet, namespace, "backend", "eu") == await own(fleet, namespace, "us")
            (wanted,) = example["spec"]["links"]
            changed = {**wanted, "services": [{"name": "backend", "port": 9090}]}
            await source.patch(MULTI_CLUSTER_NETWORKS, "hello", {"spec": {"links": [changed]}}, namespace)
            name = link["metadata"]["name"]
            await has(fleet, "cd", SERVICE_LINKS, namespace, name, lambda found: found["spec"] != link["spec"])
            await source.delete(MULTI_CLUSTER_NETWORKS, "hello", namespace)
            await shared.gone(fleet, MULTI_CLUSTER_NETWORKS, namespace, "hello", ("cd",))
            assert await source.list(SERVICE_LINKS, namespace, labels="multicluster/ac3-network-uid") == []
    finally:
        await unserved(source, MULTI_CLUSTER_NETWORKS)
