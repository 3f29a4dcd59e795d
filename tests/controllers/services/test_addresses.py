"""Addresses of copies are copied to originals that ask for it, on real API servers."""

import json
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import EVENTS, INGRESSES, SERVICES, TARGETS
from agent.services.addresses import AddressesController
from agent.services.copies import GlobalServices
from agent.services.ingress import IngressController
from tests.controllers.pair import Pair
from tests.waiting import until

pytestmark = pytest.mark.cluster

ASK = names.SHORT_PREFIX + names.PUBLISH_ADDRESSES
DNS = "external-dns.alpha.kubernetes.io/target"
PORTS = [{"port": 80}]


async def address(client: Any, kind: Any, name: str, namespace: str, ip: str) -> None:
    """Write a load balancer's address, as the cloud's controller does."""
    status = {"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}}
    await client.patch(kind, name, status, namespace, sub="status")


async def annotations(pair: Pair, kind: Any, name: str) -> dict[str, str]:
    found: dict[str, str] = (await pair.here.get(kind, name, pair.namespace))["metadata"].get("annotations") or {}
    return found


async def lists(pair: Pair, kind: Any, expected: str | None) -> None:
    async def right() -> bool:
        return (await annotations(pair, kind, "web")).get(DNS) == expected

    await until(right)


async def target(pair: Pair, **fields: Any) -> None:
    """Create the Target, which configures the controller."""
    spec = {"kubeconfigSecret": {"name": "none"}}
    head = {"apiVersion": TARGETS.api_version, "kind": TARGETS.name}
    await pair.here.create(TARGETS, {**head, "metadata": {"name": "eu"}, "spec": spec, **fields}, pair.namespace)


async def test_addresses_of_copies_are_listed_until_their_cluster_leaves(pair: Pair) -> None:
    await target(pair)
    wanted = {"multicluster/global": "true", "multicluster/copy-load-balancer": "true", ASK: DNS}
    spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": PORTS}
    async with pair.at_work(GlobalServices, IngressController, AddressesController) as connected:
        await pair.create(SERVICES, "web", metadata={"annotations": wanted}, spec=spec)
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        await pair.create(INGRESSES, "web", metadata={"annotations": {ASK: DNS}}, spec={"defaultBackend": backend})
        for kind, here, there in ((SERVICES, "192.0.2.1", "203.0.113.1"), (INGRESSES, "192.0.2.2", "203.0.113.2")):
            await pair.copy(kind, "web")
            await address(pair.here, kind, "web", pair.namespace, here)
            await address(pair.there, kind, "web", pair.namespace, there)
            await lists(pair, kind, f"{here},{there}")
        told = (await annotations(pair, SERVICES, "web"))[names.ANNOTATION_ADDRESSES]
        assert json.loads(told) == {connected.node_name: ["203.0.113.1"]}
        retire = {"metadata": {"annotations": {"multicluster/retire": "true"}}}
        await pair.here.patch(TARGETS, "eu", retire, pair.namespace)
        await lists(pair, SERVICES, "192.0.2.1")
        await lists(pair, INGRESSES, "192.0.2.2")
        await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": None}}, pair.namespace)
        await lists(pair, SERVICES, "192.0.2.1,203.0.113.1")
        await pair.here.patch(SERVICES, "web", {"metadata": {"annotations": {ASK: None}}}, pair.namespace)
        await lists(pair, SERVICES, None)
        assert not {names.ANNOTATION_ADDRESSES, names.ANNOTATION_ADDRESSES_IN} & {
            *await annotations(pair, SERVICES, "web")
        }


async def test_nothing_is_written_for_who_does_not_ask_and_nonsense_is_told(pair: Pair) -> None:
    await target(pair)
    shared = {"multicluster/global": "true", "multicluster/copy-load-balancer": "true"}
    spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": PORTS}
    async with pair.at_work(GlobalServices, AddressesController):
        await pair.create(SERVICES, "web", metadata={"annotations": shared}, spec=spec)
        await pair.create(SERVICES, "wrong", metadata={"annotations": {**shared, ASK: "yes"}}, spec=spec)
        for name in ("web", "wrong"):
            await pair.copy(SERVICES, name)
            await address(pair.there, SERVICES, name, pair.namespace, "203.0.113.1")

        async def said() -> list[dict[str, Any]]:
            fields = "involvedObject.name=wrong,reason=InvalidAnnotation"
            return [*await pair.here.list(EVENTS, pair.namespace, fields=fields)]

        (event,) = await until(said)
        assert "publish-addresses is 'yes': write true" in event["message"]
        for name in ("web", "wrong"):
            assert names.ANNOTATION_ADDRESSES not in await annotations(pair, SERVICES, name)
