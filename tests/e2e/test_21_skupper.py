"""Promise 21: Services reach other clusters through Skupper, with the rights of agents and Sources for it."""

import asyncio
from typing import Any

import pytest

from agent.api.kinds import (
    CONNECTORS,
    LISTENERS,
    NAMESPACES,
    PODS,
    SERVICE_LINKS,
    SERVICES,
    SKUPPER_TOKENS,
    SOURCES,
    Kind,
)
from agent.api.names import PREFIX
from agent.api.roles import OPTIONAL_FEATURES
from agent.kube.client import Client
from tests.controllers.installed import installed
from tests.controllers.skupper import KINDS, LATE, Skupper
from tests.e2e import manifests, shared
from tests.e2e.faults.agents import agent_with
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.shared import has

pytestmark = pytest.mark.full("A double of Skupper answers; no other test depends on it.")

Raw = dict[str, Any]

TARGETS = ("us", "eu")


def connected(link: Raw) -> bool:
    rows = (link.get("status") or {}).get("clusters") or ()
    return condition(link, "Ready").get("status") == "True" and {row["driver"] for row in rows} == {"skupper"}


def is_down(link: Raw) -> bool:
    """Check that all rows about `us` report its Link as down, and that all other rows are ready."""
    rows = (link.get("status") or {}).get("clusters") or ()
    down = [row for row in rows if row["reason"] == "PeerUnreachable" and "Not operational" in row["message"]]
    others = [row for row in rows if "us" not in (row["cluster"], *row["from"])]
    about = [row for row in rows if row["cluster"] == "us" or row["from"] == ["us"]]
    return bool(others) and about == down and all(row["ready"] == "True" for row in others)


async def test_services_reach_other_clusters_by_skupper_and_other_namespaces(fleet: Fleet, namespace: str) -> None:
    network = Skupper(namespace, **fleet.clients)
    # The first token is refused (404: no such claim), so that the agent requests another one.
    network.refusals = [LATE]
    async with (
        installed(list(fleet.clients.values()), KINDS),
        agent_with(fleet, "cd", ("--skupper", "--link-namespaces", "--discovery-interval=2s")),
        network.at_work(),
    ):
        for cluster in TARGETS:
            await fleet.clients[cluster].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, namespace)
        asked = {"metadata": {"annotations": {"multicluster/skupper-site": "true"}}}
        await fleet.source.patch(NAMESPACES, namespace, asked)
        here = manifests.pod("here", elect=None)
        here["metadata"]["labels"] = {PREFIX + "app": "web"}
        await fleet.source.create(PODS, here, namespace)
        await fleet.source.create(SERVICES, shared.service("web"), namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 4), namespace)
        await fleet.running(namespace, "web", 4)
        chosen = {"metadata": {"annotations": {"multicluster/network-driver": "skupper"}}}
        await fleet.source.patch(SERVICES, "web", chosen, namespace)
        await has(fleet, "cd", SERVICE_LINKS, namespace, "web", connected)
        assert len(network.codes) > len(TARGETS)
        for cluster in TARGETS:
            assert len(await fleet.clients[cluster].list(SKUPPER_TOKENS, namespace)) == 1
        network.down = {"us": {"Operational": "Not operational"}}
        await has(fleet, "cd", SERVICE_LINKS, namespace, "web", is_down)
        network.down = {}
        both = ((kind, client) for kind in (LISTENERS, CONNECTORS) for client in fleet.clients.values())
        await asyncio.gather(*(mended(fleet, client, kind, namespace) for kind, client in both))
        await callers_elsewhere(fleet, namespace)
        chosen["metadata"]["annotations"]["multicluster/network-driver"] = "none"
        await fleet.source.patch(SERVICES, "web", chosen, namespace)

        async def nothing_is_left() -> bool:
            kinds = (LISTENERS, CONNECTORS)
            return not [o for c in fleet.clients.values() for kind in kinds for o in await c.list(kind, namespace)]

        await fleet.until("neither Listeners nor Connectors are left", nothing_is_left, about=namespace)


async def mended(fleet: Fleet, client: Client, kind: Kind, namespace: str) -> None:
    """Check that the agent reverts a change to its object."""
    (before,) = await client.list(kind, namespace)
    name = before["metadata"]["name"]
    await client.patch(kind, name, {"spec": {"routingKey": "another"}}, namespace)

    async def as_before() -> bool:
        return bool((await client.get(kind, name, namespace))["spec"] == before["spec"])

    await fleet.until(f"{kind.name} {name} is mended", as_before, about=namespace)


async def callers_elsewhere(fleet: Fleet, namespace: str) -> None:
    """Check that a ServiceLink creates a Service in another namespace, and that both are deleted together."""
    other = f"{namespace}-callers"
    labels = {"multicluster-scheduler": "enabled"}
    await fleet.source.create(NAMESPACES, {"metadata": {"name": other, "labels": labels}})
    try:
        spec = {"service": "web", "to": [{"cluster": "local-cluster", "namespace": other}]}
        link = {"apiVersion": SERVICE_LINKS.api_version, "kind": SERVICE_LINKS.name, "spec": spec}
        await fleet.source.create(SERVICE_LINKS, {**link, "metadata": {"name": "for-others"}}, namespace)
        await has(fleet, "cd", SERVICES, other, "web", bool)
        await fleet.source.delete(SERVICE_LINKS, "for-others", namespace)
        await shared.gone(fleet, SERVICES, other, "web", ("cd",))
    finally:
        await fleet.source.delete(NAMESPACES, other)
