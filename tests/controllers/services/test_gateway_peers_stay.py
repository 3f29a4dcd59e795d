"""GatewayPeers survive a missing or incomplete ClusterSummary, and are recreated after a user deletes them."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, EVENTS, GATEWAY_PEERS, NODES, SERVICES, TARGETS
from agent.api.names.links import ANNOTATION_GATEWAY
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.services.copies import GlobalServices
from agent.services.gateways import GatewayPeersController
from agent.services.gateways.withdrawn import REASON
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import SHARED, Links
from tests.controllers.services.test_networkdriver import gateway, tell, uid_of
from tests.controllers.target_links import target
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

SETTLED_SECONDS = 0.7
"""Longer than the deletion of GatewayPeers takes: they are written at most every half second."""


async def peers(client: Client, namespace: str) -> dict[str, str]:
    """Return the UIDs of GatewayPeers by name."""
    found = await client.list(GATEWAY_PEERS, namespace)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


@pytest.fixture
async def joined(pair: Pair) -> AsyncIterator[Pair]:
    """Two clusters that share a Service through gateways."""
    for client in (pair.here, pair.there):
        await tell(client, await uid_of(client), "")
        await gateway(client, "CA")
    await pair.here.create(TARGETS, target("eu", pair.namespace))
    await Links(pair, "").shared_by("True", "Gateway")
    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": [{"name": "http", "port": 80}]})
    try:
        yield pair
    finally:
        for client in (pair.here, pair.there):
            with contextlib.suppress(NotFound):
                await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
        with contextlib.suppress(NotFound):
            await pair.here.delete(NODES, names.virtual_node(pair.namespace, "eu"))


async def both(pair: Pair) -> list[dict[str, str]]:
    return [await peers(client, pair.namespace) for client in (pair.here, pair.there)]


async def written(pair: Pair) -> list[dict[str, str]]:
    """Return the GatewayPeers of both clusters, once each has one."""

    async def probe() -> list[dict[str, str]] | None:
        found = await both(pair)
        return found if all(found) else None

    return await until(probe, what="gateways are told of each other") or []


async def test_a_summary_that_is_deleted_and_written_again_deletes_no_gateway_peer(joined: Pair) -> None:
    pair, controller = joined, functools.partial(GatewayPeersController, grace=2.0)
    async with pair.at_work(controller, GlobalServices, gateway=True):
        before = await written(pair)
        for client in (pair.there, pair.here):
            uid = await uid_of(client)
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
            await asyncio.sleep(SETTLED_SECONDS)
            # As the cluster's agent writes the summary: at first without gateways.
            await tell(client, uid, "")
            await asyncio.sleep(SETTLED_SECONDS)
            await gateway(client, "CA")
            body = {"metadata": {"annotations": {ANNOTATION_GATEWAY: "nonsense"}}}
            await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, body)
            await asyncio.sleep(SETTLED_SECONDS)
            await gateway(client, "CA")
            # If they had been deleted meanwhile, their UIDs would differ.
            assert await both(pair) == before
        await gateway(pair.there, None)
        await until(lambda: _none(pair), what="gateways that are gone for good are told no more")


async def _none(pair: Pair) -> bool:
    return await both(pair) == [{}, {}]


async def test_a_gateway_peer_that_a_user_deletes_stays_away_for_a_while_and_is_told(joined: Pair) -> None:
    pair, controller = joined, functools.partial(GatewayPeersController, away=1.5)
    async with pair.at_work(controller, GlobalServices, gateway=True):
        _, there = await written(pair)
        (name,) = there
        # Watches have to report the object before it is deleted.
        await asyncio.sleep(0.3)
        await pair.there.delete(GATEWAY_PEERS, name, pair.namespace)
        await asyncio.sleep(SETTLED_SECONDS)
        assert await peers(pair.there, pair.namespace) == {}

        async def told() -> Raw | None:
            events = await pair.here.list(EVENTS, pair.namespace)
            return next((each for each in events if each["reason"] == REASON), None)

        event = await until(told)
        assert event["involvedObject"]["name"] == "eu"
        again = await written(pair)
        assert again[1][name] != there[name]
        # A peer that this agent deletes itself and needs again is recreated at once.
        await pair.here.patch(
            SERVICES, "web", {"metadata": {"annotations": {"multicluster/global": None}}}, pair.namespace
        )
        await until(lambda: _none(pair))
        await pair.here.patch(SERVICES, "web", {"metadata": {"annotations": SHARED["annotations"]}}, pair.namespace)
        await written(pair)
