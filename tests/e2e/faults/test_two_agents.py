"""If the leading one of two agents is killed, the other leads within 15 s, and virtual nodes stay ready."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from agent.api import names
from agent.api.kinds import LEASES
from agent.base.clock import parse
from agent.kube.informer import Informer
from agent.kube.store import Object
from tests.e2e import manifests
from tests.e2e.debugging import another_agent
from tests.e2e.faults.agents import USUAL_SETTINGS, agent_with
from tests.e2e.faults.told import told
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]
FEW = 8
PROMISED_SECONDS = 15.0
pytestmark = [
    pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier."),
    pytest.mark.usefixtures("processes_only"),
]


@contextlib.asynccontextmanager
async def terms(fleet: Fleet, cluster: str) -> AsyncIterator[list[Raw]]:
    """Record the versions of the lease of a cluster's agents."""
    found: list[Raw] = []

    def note(old: Object | None, new: Object | None) -> None:
        if new is not None:
            found.append(msgspec.json.decode(new.raw)["spec"])

    informer = Informer(fleet.clients[cluster], LEASES, fleet.home, fields=f"metadata.name={names.LEASE_CONTROLLERS}")
    informer.subscribe(note)
    watching = asyncio.ensure_future(informer.run())
    try:
        await informer.synced.wait()
        yield found
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def longest_gap(leases: list[Raw]) -> float:
    """Return the longest time in seconds between the last renewal of a leader and the start of the next."""
    held = [lease for lease in leases if lease.get("holderIdentity")]
    changes = [(old, new) for old, new in itertools.pairwise(held) if old["holderIdentity"] != new["holderIdentity"]]
    assert changes, "nobody else has led"
    return max((parse(new["acquireTime"]) - parse(old["renewTime"])).total_seconds() for old, new in changes)


async def stands_by(fleet: Fleet, cluster: str, address: str) -> None:
    """Wait until the second replica is ready, and so has observed the lease that it waits for."""
    url = f"http://{address}:{fleet.sandbox[cluster].ports['agent-health']}/readyz"

    async def ready() -> bool:
        async with aiohttp.ClientSession() as http:
            with contextlib.suppress(aiohttp.ClientError):
                async with http.get(url) as response:
                    return response.ok
        return False

    await fleet.until("the second replica is ready", ready)


async def _is(value: bool) -> bool:
    return value


@pytest.mark.seldom
@pytest.mark.parametrize("cluster", ["cd", "us"])
async def test_another_agent_leads_within_15_s_and_virtual_nodes_stay_ready(
    fleet: Fleet, namespace: str, cluster: str
) -> None:
    async with (
        agent_with(fleet, cluster, USUAL_SETTINGS),
        another_agent(fleet, cluster) as second,
        told(fleet, namespace) as heard,
        terms(fleet, cluster) as leases,
    ):
        await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", FEW), namespace)
        before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW)}
        first = leases[-1]["holderIdentity"]
        await stands_by(fleet, cluster, second)
        count = len(leases)
        await fleet.until("the leader has renewed its lease since", lambda: _is(len(leases) >= count + 2))
        await fleet.sandbox.kill(cluster, "agent")
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2 * FEW}}, namespace)

        async def another_leads() -> bool:
            return leases[-1].get("holderIdentity") not in ("", None, first)

        await fleet.until("another one leads", another_leads, about=namespace)
        pods = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", 2 * FEW)}
        assert before < pods
        await fleet.agree(namespace)
        assert longest_gap(leases) <= PROMISED_SECONDS
        for target in ("us", "eu"):
            assert heard.of("Node", names.virtual_node(namespace, target), "Ready") == ["True"]
    fleet.census.check(namespace, at_most=2 * FEW)
