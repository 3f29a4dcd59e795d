"""A target that refuses EndpointSlices because of a real quota: moves treat its endpoints as stuck."""

from typing import Any

import pytest

from agent.api.kinds import ENDPOINT_SLICES, RESOURCE_QUOTAS
from agent.clusters.deps import Deps
from agent.drivers.driver import LOCAL
from agent.drivers.reach import EndpointReach, Reach
from agent.services.copies import GlobalServices
from agent.services.endpoints.controller import EndpointsController
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, shared_with_eu
from tests.waiting import until

pytestmark = pytest.mark.cluster

NONE = "count/endpointslices.discovery.k8s.io"


async def refuse(pair: Pair) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {NONE: "0"}}}
    await pair.there.create(RESOURCE_QUOTAS, quota, pair.namespace)

    async def counted() -> bool:
        found = await pair.there.get(RESOURCE_QUOTAS, "none", pair.namespace)
        return (found.get("status") or {}).get("used") == {NONE: "0"}

    await until(counted, what="the quota is in force")


async def test_a_cluster_that_refuses_slices_is_stuck_until_it_takes_them(pair: Pair) -> None:
    reaches: list[EndpointReach] = []

    def endpoints_controller(deps: Deps) -> EndpointsController:
        reaches.append(EndpointReach(deps))
        return EndpointsController(deps)

    pod: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {"podIPs": [{"ip": "10.1.0.1"}]}}
    await refuse(pair)
    async with shared_with_eu(pair), pair.at_work(endpoints_controller, GlobalServices) as eu:
        assert pair.deps is not None
        refusals, key = pair.deps.endpoint_refusals, (pair.namespace, "web")
        links = Links(pair, pair.deps.cluster_uid)
        await links.shared_by("True", "EndpointSlices")
        await links.offer(pair.here, "10.1.0.1")

        def reach() -> Reach:
            (found,) = reaches
            service = found.services.store.get(key)
            return found.of(pod, [service] if service is not None else [])

        refused = Reach(frozenset((LOCAL,)), frozenset((eu.node_name,)), stuck=frozenset((eu.node_name,)))
        await until(lambda: reach() == refused and refusals.has(eu.node_name, key))
        await pair.there.delete(RESOURCE_QUOTAS, "none", pair.namespace)
        # A change of any slice retries the write; otherwise the retry takes a minute.
        await pair.here.patch(ENDPOINT_SLICES, "web-own", {"metadata": {"labels": {"again": ""}}}, pair.namespace)
        await until(lambda: reach() == Reach(frozenset((LOCAL, eu.node_name))))
        await until(lambda: not refusals.has(eu.node_name, key))
