"""Third-party webhooks change pods after the agent's, in source and target, while agents die: pods run, writes
cease."""

import asyncio
import contextlib
import copy
import itertools
from typing import Any

import pytest

from agent.api.kinds import PODS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, on_virtual_node
from tests.e2e.laterwebhook import later_webhook
from tests.e2e.manifests import DEPLOYMENTS

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")

Raw = dict[str, Any]
FEW = 10
STILL_SECONDS = 6.0
SIDECAR = {"name": "mesh", "image": "mesh:1"}
TOLERATION = {"key": "example.com/mesh", "operator": "Exists"}
CHANGED = "example.com/changed"


def meshed(pod: Raw) -> Raw:
    """Return the pod with a sidecar, a label, an annotation and a toleration."""
    made = copy.deepcopy(pod)
    spec, metadata = made["spec"], made["metadata"]
    if all(each["name"] != SIDECAR["name"] for each in spec["containers"]):
        spec["containers"].append(copy.deepcopy(SIDECAR))
    if all(each.get("key") != TOLERATION["key"] for each in spec.get("tolerations") or ()):
        spec["tolerations"] = [*(spec.get("tolerations") or ()), TOLERATION]
    metadata["labels"] = {**(metadata.get("labels") or {}), "example.com/mesh": "on"}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), "example.com/mesh": "on"}
    return made


async def versions(fleet: Fleet, namespace: str) -> dict[tuple[str, str], str]:
    """Return the resource versions of a namespace's pods in all clusters."""
    return {
        (cluster, pod["metadata"]["name"]): pod["metadata"]["resourceVersion"]
        for cluster, client in fleet.clients.items()
        for pod in await client.list(PODS, namespace)
    }


async def rests(fleet: Fleet, namespace: str) -> None:
    """Wait until the pods no longer change."""

    async def still() -> bool:
        before = await versions(fleet, namespace)
        await asyncio.sleep(STILL_SECONDS)
        return bool(before) and before == await versions(fleet, namespace)

    await fleet.until("nobody changes pods any more", still, about=namespace)


async def test_pods_that_others_change_after_us_run_and_are_left_alone_though_agents_die(
    fleet: Fleet, namespace: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for cluster in fleet.clients:
            await stack.enter_async_context(later_webhook(fleet, namespace, meshed, cluster))
        await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", FEW), namespace)
        for victim in ("cd", "us"):
            await fleet.sandbox.kill(victim, "agent")
            await fleet.sandbox.start(victim, "agent")
        pods = await fleet.running(namespace, "web", FEW)
        await fleet.agree(namespace)
        assert all(on_virtual_node(pod) and pod["metadata"]["labels"]["example.com/mesh"] == "on" for pod in pods)
        delegates = [pod for _, pod in (await fleet.delegates(namespace)).values()]
        for delegate in delegates:
            assert [each["name"] for each in delegate["spec"]["containers"]] == ["main", "mesh"]
            assert TOLERATION["key"] in {each.get("key") for each in delegate["spec"]["tolerations"]}
            assert delegate["metadata"]["annotations"]["example.com/mesh"] == "on"
        await rests(fleet, namespace)
    fleet.census.check(namespace, at_most=FEW)


@pytest.mark.parametrize(
    "clusters",
    [pytest.param(("cd",), marks=pytest.mark.seldom), pytest.param(("us",), marks=pytest.mark.seldom), ("cd", "us")],
    ids=" and ".join,
)
async def test_a_webhook_that_writes_something_new_at_each_change_keeps_nobody_busy_for_ever(
    fleet: Fleet, clusters: tuple[str, ...]
) -> None:
    count = itertools.count()

    def stamped(pod: Raw) -> Raw:
        made = copy.deepcopy(pod)
        made["metadata"]["annotations"] = {**(made["metadata"].get("annotations") or {}), CHANGED: str(next(count))}
        return made

    async with fleet.namespace(("us",)) as namespace, contextlib.AsyncExitStack() as stack:
        for cluster in clusters:
            await stack.enter_async_context(later_webhook(fleet, namespace, stamped, cluster, updates=True))
        await fleet.source.create(PODS, manifests.pod("a"), namespace)
        await fleet.running(namespace, "a", 1)
        await rests(fleet, namespace)
        await fleet.source.patch(PODS, "a", {"metadata": {"annotations": {"example.com/by-hand": "1"}}}, namespace)

        async def there() -> bool:
            ((_, delegate),) = (await fleet.delegates(namespace)).values()
            return bool(delegate["metadata"]["annotations"].get("example.com/by-hand") == "1")

        await fleet.until("the annotation is with the delegate", there, about=namespace)
        await rests(fleet, namespace)
        await fleet.agree(namespace)
        fleet.census.check(namespace, at_most=1)
