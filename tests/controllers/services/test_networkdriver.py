"""A target's network driver, chosen by the pod networks that both clusters publish and by reachability."""

import asyncio
import contextlib
import functools
import json
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CLUSTER_SUMMARIES, NAMESPACES, TARGETS
from agent.api.names import links
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE, EVERYTHING, rules
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.gatewaytold import Told, write
from agent.model.podranges import of, published, unreached
from agent.runtime.health import Health
from agent.services.endpoints import NetworkDriverController
from tests.controllers.dependencies.test_followrules import source
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import summaries
from tests.controllers.target_links import condition, target
from tests.waiting import until

pytestmark = pytest.mark.cluster


soon = functools.partial(NetworkDriverController, grace=0.3)
"""The controller with a short grace period for networks that a summary no longer names."""


async def tell(client: Client, uid: str, health: str, *pods: str) -> None:
    """Publish the networks of a cluster, as its agent does."""
    annotations = {links.ANNOTATION_NETWORKS: json.dumps({"pods": pods, "health": health})}
    metadata = {"name": names.SUMMARY_NAME, "annotations": {**annotations, names.ANNOTATION_CLUSTER_UID: uid}}
    try:
        await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, {"metadata": metadata})
    except NotFound:
        head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
        await client.create(CLUSTER_SUMMARIES, {**head, "metadata": metadata, "capacity": {}, "allocatable": {}})


def own_address(server: str) -> str:
    """Return a non-loopback address of this machine; skip the test without network namespaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((urlsplit(server).hostname or "", 9))
        address = str(probe.getsockname()[0])
    if address.startswith("127."):
        pytest.skip("without network namespaces clusters have no addresses that pods could have")
    return address


@contextlib.asynccontextmanager
async def serving(health: Health) -> AsyncIterator[None]:
    task = asyncio.create_task(health.serve())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def uid_of(client: Client) -> str:
    return str((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


async def gateway(client: Client, ca: str | None) -> None:
    """Publish the gateway CA of a cluster; None removes it."""
    told = write(Told(ca)) if ca is not None else None
    body = {"metadata": {"annotations": {links.ANNOTATION_GATEWAY: told}}}
    await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, body)


async def test_the_driver_of_a_target_is_by_whose_pods_are_reached(pair: Pair) -> None:
    here, there = await uid_of(pair.here), await uid_of(pair.there)
    address = own_address(pair.connection.server)
    with socket.create_server((address, 0)) as free:
        health = Health(f"{address}:{free.getsockname()[1]}")
    health_address = health._address
    health.cluster = there

    async def said(status: str, reason: str) -> str:
        found = await condition(pair.here, pair.namespace, "eu", "ServicesShared", status, reason)
        return str(found["message"])

    async def told(words: str, reason: str) -> None:
        await until(lambda: _is_told(words, reason))

    async def _is_told(words: str, reason: str) -> bool:
        return words in await said("False", reason)

    async def change(**parts: Any) -> None:
        await pair.here.patch(TARGETS, "eu", parts, pair.namespace)

    await tell(pair.here, here, "", "10.1.0.0/16")
    await tell(pair.there, there, health_address, "10.2.0.0/16")
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    try:
        async with pair.at_work(soon, discovery_interval=0.3):
            async with serving(health):
                await said("True", "EndpointSlices")
                health.cluster = here
                assert "answers that of cluster" in await said("False", links.STRANGERS)
            health.cluster = there
            async with serving(health):
                await said("True", "EndpointSlices")
                await tell(pair.there, there, health_address, "10.2.0.0/16", "10.1.7.0/24")
                assert "10.1.7.0/24 is in the pod networks of both" in await said("False", links.OVERLAP)
            annotation = names.SHORT_PREFIX + names.NETWORK_DRIVER
            await change(metadata={"annotations": {annotation: "endpointslices"}})
            assert "10.1.7.0/24" in await said("True", "EndpointSlices")
            await change(metadata={"annotations": {annotation: None}})
            await said("False", links.OVERLAP)
            # Whichever driver is named, no address of this target is copied to the source.
            for driver, state, reason in (
                ("none", "True", "Off"),
                ("external/sdwan", "True", "External"),
                ("wormhole", "False", "InvalidNetworkDriver"),
            ):
                await change(metadata={"annotations": {annotation: driver}})
                assert unreached(links.OVERLAP) in await said(state, reason)
                found = of(await pair.here.get(TARGETS, "eu", pair.namespace))
                assert found.strange == links.OVERLAP
            await change(metadata={"annotations": {annotation: None}})
            await said("False", links.OVERLAP)
            for client in (pair.here, pair.there):
                await said("False", links.OVERLAP)
                await gateway(client, "CA")
            assert f"network driver gateway; {unreached(links.OVERLAP)}" in await said("True", links.BY_GATEWAY)
            await change(metadata={"annotations": {annotation: "gateway"}})
            await gateway(pair.there, None)
            await told("gateway.enabled", links.OVERLAP)
            await tell(pair.there, there, health_address, "10.2.0.0/16")
            await told("gateway.enabled", "NoGateway")
            await change(metadata={"annotations": {annotation: None}})
            await tell(pair.there, there, health_address, "10.2.0.0/16", "10.1.7.0/24")
            await said("False", links.OVERLAP)
            await change(spec={"podCIDRs": ["10.3.0.0/16"]})
            await said("True", "EndpointSlices")
    finally:
        for client in (pair.here, pair.there):
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)


async def test_a_condition_that_another_program_takes_away_is_written_again(pair: Pair) -> None:
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    async with summaries(pair), pair.at_work(soon, discovery_interval=600.0):
        for _ in range(2):
            await condition(pair.here, pair.namespace, "eu", "ServicesShared", "True", "EndpointSlices")
            await pair.here.patch(TARGETS, "eu", {"status": {"conditions": None}}, pair.namespace, sub="status")


async def test_a_new_target_says_why_it_has_no_driver_and_publishes_no_address(pair: Pair) -> None:
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    async with pair.at_work(soon, discovery_interval=0.3):
        found = await condition(pair.here, pair.namespace, "eu", "ServicesShared", "False", links.UNTOLD)
        assert "the ClusterSummary of this cluster is missing" in found["message"]
        assert published(await pair.here.get(TARGETS, "eu", pair.namespace)).strange == links.UNTOLD
        async with summaries(pair):
            await condition(pair.here, pair.namespace, "eu", "ServicesShared", "True", "EndpointSlices")
        # The networks are removed from the summary, and the verdict stays.
        await asyncio.sleep(0.5)
        await condition(pair.here, pair.namespace, "eu", "ServicesShared", "True", "EndpointSlices")


async def test_the_right_that_a_target_does_not_grant_is_named(pair: Pair) -> None:
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    connection = await source(pair, rules(EVERYTHING))
    async with summaries(pair), pair.at_work(soon, connection=connection, discovery_interval=0.3):
        found = await condition(pair.here, pair.namespace, "eu", "ServicesShared", "False", links.UNTOLD)
        assert "may not be read" in found["message"]
        assert 'cannot list resource "clustersummaries"' in found["message"]
        assert f"ClusterRole {CLUSTER_SUMMARY_VIEWER_ROLE}" in found["message"]


async def test_of_a_target_that_has_gateways_it_is_told_whether_others_may_be_led_there(pair: Pair) -> None:
    async def said(status: str, reason: str) -> str:
        found = await condition(pair.here, pair.namespace, "eu", links.GATEWAY_USABLE, status, reason)
        return str(found["message"])

    for client, network in ((pair.here, "10.1.0.0/16"), (pair.there, "10.2.0.0/16")):
        await tell(client, await uid_of(client), "", network)
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    try:
        async with pair.at_work(soon, discovery_interval=0.3, gateway=True):
            found = await condition(pair.here, pair.namespace, "eu", "ServicesShared", "True")
            assert found["reason"] == "EndpointSlices"
            target_object = await pair.here.get(TARGETS, "eu", pair.namespace)
            assert find_condition(target_object["status"]["conditions"], links.GATEWAY_USABLE) is None
            await gateway(pair.there, "CA")
            await said("True", "Allowed")
            await gateway(pair.there, None)
            assert "install the chart there" in await said("False", "NoGateway")
            await gateway(pair.there, "CA")
            await said("True", "Allowed")
        async with pair.at_work(soon, discovery_interval=0.3):
            assert "the source has no gateway" in await said("False", "NoGateway")
    finally:
        for client in (pair.here, pair.there):
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
