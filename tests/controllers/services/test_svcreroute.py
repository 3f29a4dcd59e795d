"""Switching of selectors, by the Service's driver, on real API servers with their endpoint controllers."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, PODS, SERVICE_LINKS, SERVICES
from agent.model.proxypod import proxy_pod
from agent.services.reroute import ServiceRerouteController, controller
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected
from tests.controllers.servicelinks import Links
from tests.controllers.servicepods import MINE, OURS, in_eu, runs, selects
from tests.waiting import until

pytestmark = pytest.mark.cluster

ALWAYS = {"service_reroute": "always"}


async def test_a_selector_waits_for_what_the_driver_of_the_service_tells(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        in_eu(pair, network_driver="skupper") as links,
        pair.at_work(ServiceRerouteController, service_links=True, **ALWAYS),
    ):
        # No controller creates EndpointSlices of these addresses: routers serve them.
        await selects(pair, OURS)
        for driver, want in (
            # Under the Service's own name they route to its own cluster.
            ("mcs", MINE),
            ("external/sdwan", OURS),
            ("linkerd", MINE),
            ("none", OURS),
        ):
            await links.annotate(network_driver=driver)
            await selects(pair, want)
        await pair.create(SERVICE_LINKS, "web", spec={"driver": "mcs"})
        await selects(pair, MINE)
        await pair.here.delete(SERVICE_LINKS, "web", pair.namespace)
        await selects(pair, OURS)

        # Unready gateways delay the switch by at most KEEP_SECONDS.
        monkeypatch.setattr(controller, "KEEP_SECONDS", 3600.0)
        await back(pair, links)
        await links.annotate(network_driver="gateway")
        await asyncio.sleep(2.0)
        await selects(pair, MINE)
        monkeypatch.setattr(controller, "KEEP_SECONDS", 0.0)
        await selects(pair, OURS)

        # The switch waits until endpoints are published.
        await back(pair, links)
        await links.annotate(network_driver="endpointslices")
        await asyncio.sleep(2.0)
        await selects(pair, MINE)
        await tell(pair)
        await selects(pair, OURS)


async def test_a_service_that_names_a_driver_goes_by_that_and_not_by_its_targets(pair: Pair) -> None:
    async with (
        in_eu(pair, network_driver="none") as links,
        pair.at_work(ServiceRerouteController, service_links=True, **ALWAYS),
    ):
        await selects(pair, OURS)
        await links.shared_by("True", "MCS")
        await asyncio.sleep(1.0)
        await selects(pair, OURS)
        await links.annotate(network_driver=None)
        await selects(pair, MINE)
        await links.annotate(network_driver="skupper")
        await selects(pair, OURS)
        await links.annotate(network_driver=None)
        await selects(pair, MINE)
        await links.shared_by("True", "Skupper")
        await selects(pair, OURS)


async def back(pair: Pair, links: Links) -> None:
    """Wait until the Service has its user's selector, and slices list the endpoint in the target."""
    await links.annotate(network_driver="mcs")
    await selects(pair, MINE)

    async def told() -> bool:
        slices = await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=f"{names.LABEL_SERVICE_NAME}=web")
        return any(found["addresses"] == ["10.2.0.1"] for each in slices for found in each["endpoints"] or ())

    await until(told)


async def tell(pair: Pair) -> None:
    """Write the endpoint of the target, as the driver `endpointslices` does."""
    service = await pair.here.get(SERVICES, "web", pair.namespace)
    owner = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"]}
    labels = {names.LABEL_SERVICE_NAME: "web", names.LABEL_GLOBAL: "true"}
    ours = {names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER, names.LABEL_ORIGIN: "eu"}
    slice = {
        "metadata": {"name": "web-eu", "labels": labels | ours, "ownerReferences": [owner]},
        "addressType": "IPv4",
        "ports": [{"port": 80}],
        "endpoints": [{"addresses": ["10.2.0.1"], "conditions": {"ready": True}}],
    }
    await pair.here.create(ENDPOINT_SLICES, slice, pair.namespace)


async def test_other_pods_are_looked_for_again_soon_while_elected_ones_go(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    other_pods = controller.Coverage.other_pods

    async def noted(self: controller.Coverage, namespace: str, selector: dict[str, str]) -> bool:
        looked.append(await other_pods(self, namespace, selector))
        return looked[-1]

    monkeypatch.setattr(controller.Coverage, "other_pods", noted)
    monkeypatch.setattr(controller, "_LATEST_SECONDS", 600.0)
    node = names.virtual_node(pair.namespace, "eu")

    def another(name: str) -> dict[str, Any]:
        pod = elected(name, pair.namespace)
        pod["metadata"]["labels"] = MINE
        return pod

    async with in_eu(pair, network_driver="none"), pair.at_work(ServiceRerouteController, **ALWAYS):
        for number in (1, 2):
            await runs(pair, proxy_pod(another(f"web-{number}"), []), node, f"10.2.0.{number + 1}")
        await selects(pair, OURS)
        await pair.here.delete(PODS, "web-1", pair.namespace, grace=0)
        await until(lambda: looked == [False])
        plain = another("plain")
        del plain["metadata"]["annotations"]
        await runs(pair, plain, "somewhere", "10.2.0.9")
        await pair.here.delete(PODS, "web-2", pair.namespace, grace=0)
        await selects(pair, MINE)
