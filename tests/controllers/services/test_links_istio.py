"""The driver `istio` on real API servers with Istio's CRDs and remote Secrets; no mesh runs."""

import pytest

from agent.api.kinds import SECRETS, SERVICES, TARGETS, Kind
from agent.drivers import handover, meshes
from agent.kube.client import Client
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController, networkdriver
from agent.services.links import ServiceLinksController
from tests.controllers.installed import installed
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, rows, shared_with_eu, summaries
from tests.controllers.target_links import condition

pytestmark = pytest.mark.cluster

GATEWAYS = Kind("networking.istio.io", "v1", "gateways", "Gateway")
CONTROLLERS = (NetworkDriverController, ServiceLinksController, EndpointsController, GlobalServices)


async def remote_secret(client: Client, namespace: str, cluster: str, **labels: str) -> None:
    metadata = {
        "name": f"istio-remote-secret-{cluster}",
        "labels": labels,
        "annotations": {"networking.istio.io/cluster": cluster},
    }
    await client.create(SECRETS, {"metadata": metadata, "stringData": {cluster: "kubeconfig"}}, namespace)


@pytest.mark.full("A double of another network's controllers answers; that driver is experimental.")
async def test_istio_is_chosen_where_istiod_has_a_remote_secret_for_the_target(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "KEEP_SECONDS", 4.0)
    for module in (networkdriver, meshes):
        name = "RECHECK_SECONDS" if module is networkdriver else "BELIEVED_SECONDS"
        monkeypatch.setattr(module, name, 0.3)
    settings = {"service_links": True, "discovery_interval": 0.5, "istio_namespace": pair.namespace}
    marked = {"istio/multiCluster": "true"}

    async def said(reason: str) -> None:
        found = await condition(pair.here, pair.namespace, "eu", "ServicesShared", "True", reason)
        assert ("(experimental: " in found["message"]) is (reason == "Istio")

    async with installed((pair.here, pair.there), [(GATEWAYS, None)]), shared_with_eu(pair), summaries(pair):
        # A Secret for another cluster, and one that istiod ignores.
        await remote_secret(pair.here, pair.namespace, "us", **marked)
        await remote_secret(pair.here, pair.namespace, "eu")
        async with pair.at_work(*CONTROLLERS, **settings):
            assert pair.deps is not None
            links = Links(pair, pair.deps.cluster_uid)
            await said("EndpointSlices")
            await pair.copy(SERVICES, "web")
            await links.offer(pair.here, "10.1.0.1")
            await links.offer(pair.there, "10.2.0.1")
            both = [(pair.here, "10.2.0.1"), (pair.there, "10.1.0.1")]
            for client, address in both:
                await links.mirrored(client, [(address, True, ["http", "admin"])])

            # A working driver is kept; once it is removed, the mesh is chosen.
            body = {"metadata": {"labels": marked}}
            await pair.here.patch(SECRETS, "istio-remote-secret-eu", body, pair.namespace)
            await links.annotate(network_driver="istio")
            for client, _ in both:
                await links.mirrored(client, [])
            found = await links.once(lambda link: {row[2] for row in rows(link)} == {"istio"})
            assert rows(found) == [("here", ["eu"], "istio", "Unverified"), ("eu", ["here"], "istio", "Unverified")]
            await links.says("Ready", "True", "Ready")
            await said("EndpointSlices")
            await links.annotate(network_driver=None)
            for client, address in both:
                await links.mirrored(client, [(address, True, ["http", "admin"])])
        await pair.here.patch(TARGETS, "eu", {"status": {"conditions": []}}, pair.namespace, sub="status")
        async with pair.at_work(*CONTROLLERS, **settings):
            await said("Istio")
            for client, _ in both:
                await links.mirrored(client, [])
            await pair.here.delete(SECRETS, "istio-remote-secret-eu", pair.namespace)
            await said("EndpointSlices")
            for client, address in both:
                await links.mirrored(client, [(address, True, ["http", "admin"])])
