"""Promise 32: if a pod of the agent has been deleted, another takes over with its own address."""

import pytest

from agent.api import names
from agent.api.kinds import NODES, PODS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.installed import Installed
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.test_90_seldom import ask

pytestmark = pytest.mark.full("Kills a leader and waits for another one; promise 6 keeps the same.")

UNAUTHORIZED = 401


@pytest.mark.usefixtures("pods_only")
async def test_another_pod_takes_over_from_one_that_is_gone(fleet: Fleet, namespace: str) -> None:
    assert isinstance(fleet.sandbox, Installed)
    node = names.virtual_node(namespace, "us")

    async def address() -> str:
        status = (await fleet.source.get(NODES, node))["status"]
        return next((each["address"] for each in status["addresses"] if each["type"] == "InternalIP"), "")

    first = await address()
    (leader,) = (name for name, found in (await fleet.sandbox.agents("cd", 2)).items() if found == first)
    await fleet.source.delete(PODS, leader, fleet.home, grace=0)

    async def follows() -> bool:
        return await address() not in ("", first)

    async def answers() -> bool:
        return await ask(fleet, node, "nonsense") == UNAUTHORIZED

    await fleet.until("the node has the address of who leads", follows, about=namespace)
    await fleet.until("its kubelet API is served there", answers, about=namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 4), namespace)
    await fleet.running(namespace, "web", 4)
    await fleet.sandbox.agents("cd", 1)
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}}, namespace)
    await fleet.running(namespace, "web", 6)
    await fleet.agree(namespace)
    fleet.census.check(namespace, at_most=6)
