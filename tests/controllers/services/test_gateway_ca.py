"""A new CA of a cluster's gateways, while the source that passes it on is away. Both gateways are real."""

import asyncio
import base64
import contextlib
import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from agent.api import names
from agent.api.kinds import EVENTS, GATEWAY_PEERS, SECRETS, SERVICES
from agent.api.names.links import ANNOTATION_TRUSTED_CA, GATEWAY_SECRET
from agent.base.certificates import split
from agent.base.clock import FixedClock
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.model.gatewaytold import digest
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController
from agent.services.gateways import GatewayPeersController, GatewaySlicesController, GatewayTrustController
from agent.targets.summary import SummaryController
from hack.lab.sandbox.gateways import GatewayPod
from tests.controllers.pair import Pair
from tests.controllers.services.test_gateways import (
    EVERYWHERE,
    HOME,
    PORTS,
    SHARED,
    certificate,
    joined,
    led,
    offer,
    own_address,
    started,
)
from tests.controllers.starting import running
from tests.gateway.lab import address, ask, echo, serving
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240), pytest.mark.full("Runs Envoys of two clusters.")]

__all__ = ["joined"]

SOURCE = (NetworkDriverController, EndpointsController, GatewayPeersController, GlobalServices)
CHECK_SECONDS = 0.3
LOAD_SECONDS = 15.0
"""Long enough for an Envoy on a busy machine."""
OVERLAP_SECONDS = 600.0


async def ca(client: Client) -> str:
    """Return the CA certificates that a cluster publishes."""

    async def probe() -> str:
        secret = await client.get(SECRETS, GATEWAY_SECRET, HOME)
        return base64.b64decode(secret["data"]["ca.crt"]).decode()

    return await until(probe)


async def given(client: Client, namespace: str) -> list[str]:
    """Return the annotations by which the source reports the CA that it has passed on."""
    found = await client.list(GATEWAY_PEERS, namespace)
    return [(each["metadata"].get("annotations") or {}).get(ANNOTATION_TRUSTED_CA, "none") for each in found]


async def test_the_earlier_ca_serves_until_the_source_is_back_and_has_passed_on_the_new_one(joined: Pair) -> None:
    pair, mine, theirs, clock = joined, address(), address(), FixedClock(datetime.now(UTC) - timedelta(minutes=20))

    def trust(deps: Deps) -> GatewayTrustController:
        return GatewayTrustController(dataclasses.replace(deps, clock=clock), check=CHECK_SECONDS, load=LOAD_SECONDS)

    await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS})
    async with contextlib.AsyncExitStack() as stack:
        start = stack.enter_async_context
        target = (SummaryController, trust, GatewaySlicesController)
        there = running(pair.clusters[1], *target, gateway=True, gateway_address=(f"{theirs}:15443",))
        far = await start(there)
        source = pair.at_work(*EVERYWHERE, *SOURCE, gateway=True, gateway_address=(f"{mine}:15443",))
        async with contextlib.AsyncExitStack() as away:
            await away.enter_async_context(source)
            assert pair.deps is not None
            await pair.copy(SERVICES, "web")
            backend = await start(serving(echo, own_address()))
            await offer(pair.there, pair.namespace, {names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}, backend)
            await until(lambda: _given(pair), what="the source has written both GatewayPeers")
            own, peer = await started(stack, pair, far, mine, theirs)
            port = await led(pair.here, pair.namespace, ready=True)

        # Nobody passes on what the target publishes now.
        await pair.there.delete(SECRETS, GATEWAY_SECRET, HOME)
        first = await certificate(pair.there)
        assert len(split((await ca(pair.there)).encode())) == 2
        clock.advance(OVERLAP_SECONDS + 60)
        await until(lambda: _event(pair), what="the delay is reported")
        await asyncio.sleep(3 * CHECK_SECONDS)
        kept = await certificate(pair.there)
        assert kept.certificate == first.certificate
        peer.show(kept)
        await _passes(own, port)

        again = pair.at_work(*EVERYWHERE, *SOURCE, gateway=True, gateway_address=(f"{mine}:15443",))
        await start(again)

        async def renewed() -> bool:
            return (await certificate(pair.there)).certificate != first.certificate

        await until(renewed, what="the certificate of the new CA is used")
        assert await given(pair.there, pair.namespace) == [digest(await ca(pair.there))]
        peer.show(await certificate(pair.there))
        await _passes(own, port)


async def _given(pair: Pair) -> bool:
    found = [await given(client, pair.namespace) for client in (pair.here, pair.there)]
    return [len(each) for each in found] == [1, 1] and "none" not in found[1]


async def _event(pair: Pair) -> bool:
    return any(each["reason"] == "NewCaAwaited" for each in await pair.there.list(EVENTS, pair.namespace))


async def _passes(own: GatewayPod, port: int) -> None:
    """Check that new connections pass with the certificate that is shown now."""
    await asyncio.sleep(1)
    for _ in range(3):
        assert await ask(own.address, port, b"hello") == b"hello"
