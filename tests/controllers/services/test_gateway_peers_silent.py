"""GatewayPeers between real API servers while a cluster does not answer."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, CLUSTER_TARGETS, GATEWAY_PEERS, NAMESPACES, SECRETS, SERVICES
from agent.api.names.links import GATEWAY_SECRET
from agent.kube.errors import NotFound
from agent.services.copies import GlobalServices
from agent.services.endpoints import NetworkDriverController
from agent.services.gateways import GatewayPeersController, GatewayTrustController
from agent.targets.summary import SummaryController
from tests.controllers.pair import Pair
from tests.controllers.proxies import enable
from tests.controllers.starting import running
from tests.controllers.target_links import by_gateway
from tests.kube.relay import Relay
from tests.namespaces import end
from tests.waiting import until

pytestmark = pytest.mark.cluster

HOME = "kube-system"
WIDTH = GatewayPeersController.lane_width
SHARED: dict[str, Any] = {
    "metadata": {"name": "web", "annotations": {"multicluster/global": "true"}},
    "spec": {"ports": [{"name": "http", "port": 80}]},
}


@contextlib.asynccontextmanager
async def many_namespaces(pair: Pair) -> AsyncIterator[list[str]]:
    """Create one enabled namespace more than a silent cluster may occupy workers for, in both clusters."""
    spaces = [f"{pair.namespace}-{number}" for number in range(WIDTH + 1)]
    try:
        for space in spaces:
            for client in (pair.here, pair.there):
                await client.create(NAMESPACES, {"metadata": {"name": space}})
            await enable(pair.here, space)
        yield spaces
    finally:
        for space in spaces:
            for client in (pair.here, pair.there):
                await end(client, space)


@contextlib.asynccontextmanager
async def cluster_target(pair: Pair) -> AsyncIterator[str]:
    """Create a ClusterTarget with the driver `gateway`; at the end remove gateways' traces from both clusters."""
    made = {**by_gateway(pair.namespace, ""), "kind": CLUSTER_TARGETS.name}
    del made["metadata"]["namespace"]
    made["spec"] = {"kubeconfigSecret": {"name": "eu", "namespace": pair.namespace}}
    await pair.here.create(CLUSTER_TARGETS, made)
    try:
        yield pair.namespace
    finally:
        await pair.here.delete(CLUSTER_TARGETS, pair.namespace)
        for client in (pair.here, pair.there):
            for kind, name, namespace in (
                (CLUSTER_SUMMARIES, names.SUMMARY_NAME, None),
                (SECRETS, GATEWAY_SECRET, HOME),
            ):
                with contextlib.suppress(NotFound):
                    await client.delete(kind, name, namespace)


def is_post(method: str, path: str) -> bool:
    return method == "POST" and path.endswith(f"/{GATEWAY_PEERS.plural}")


async def test_a_cluster_that_does_not_answer_holds_up_no_other(pair: Pair) -> None:
    own, source = (
        (SummaryController, GatewayTrustController),
        (NetworkDriverController, GatewayPeersController, GlobalServices),
    )
    settings = {"gateway": True, "gateway_address": ("192.0.2.9:15443",)}
    async with (
        many_namespaces(pair) as (last, *others),
        cluster_target(pair) as name,
        Relay.started(pair.connection) as relay,
        running(pair.clusters[1], *own, **settings),
        running(pair.clusters[0], *own, *source, **settings) as deps,
    ):
        relay.freeze(is_post)
        # Requests without a response outlast this test.
        deps.local.client.session.timeout = 600.0
        dark = await deps.targets.connect(("", name), relay.connection, "first")
        await until(lambda: dark.ready)
        for space in others:
            await pair.here.create(SERVICES, SHARED, space)

        def waiting() -> int:
            return len({each for each in relay.requests if is_post(*each)})

        await until(lambda: waiting() == WIDTH, what="as many wait for the cluster as may")
        await pair.here.create(SERVICES, SHARED, last)
        await until(lambda: pair.here.list(GATEWAY_PEERS, last), what="this cluster is told of the other one")
        assert dark.ready
        relay.mend()
