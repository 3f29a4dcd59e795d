"""Promise 35: pods that end at once on SIGTERM lose no request, however they end, without a change of their manifest.

Fifty requests a second on new connections, from every cluster to the Service's address there and to endpoints in the
source's slices, as ingress controllers send them.
"""

import contextlib
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import PODS, SERVICES
from agent.api.names import virtual_node
from tests.e2e import shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.test_12_drain import BUDGETS
from tests.e2e.test_62_moves import PATIENCE_SECONDS, REPLICAS, TARGETS, in_clusters, rolled_out, say, web
from tests.e2e.traffic import Traffic, traffic

pytestmark = [
    pytest.mark.realnodes,
    pytest.mark.full("Minutes of requests to real containers; tests on real API servers hold each step of the pause."),
    pytest.mark.timeout(900),
]

STUBBORN = ["sh", "-c", "trap : TERM; while :; do sleep 1; done"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace with a Deployment of six in eu and its Service."""
    async with fleet.namespace() as namespace:
        await say(fleet, namespace, {TARGETS: "eu"})
        await fleet.source.create(SERVICES, shared.service("web"), namespace)
        await fleet.source.create(DEPLOYMENTS, web(), namespace)
        pods = await in_clusters(fleet, namespace, {"eu"})
        # kube-proxies that have just heard of the Service refuse its first requests, on a plain cluster, too.
        async with traffic(fleet, namespace, "web") as asked:
            await asked.met(pods)
        yield namespace


@contextlib.asynccontextmanager
async def unnoticed(fleet: Fleet, place: str) -> AsyncIterator[Traffic]:
    """No request fails meanwhile."""
    began = time.monotonic()
    async with traffic(fleet, place, "web") as asked:
        yield asked
    asked.none_failed(time.monotonic() - began)


async def test_a_rollout_a_scale_down_and_a_deletion_lose_no_request(fleet: Fleet, place: str) -> None:
    async with unnoticed(fleet, place) as asked:
        before = await in_clusters(fleet, place, {"eu"})
        await asked.met(before)
        await fleet.kubectl("cd", "-n", place, "rollout", "restart", "deployment/web")
        after = await rolled_out(fleet, place)
        assert not before & after
        await asked.met(after)
        await fleet.kubectl("cd", "-n", place, "scale", "deployment/web", "--replicas=3")
        left = await in_clusters(fleet, place, {"eu"}, 3)
        await fleet.kubectl("cd", "-n", place, "delete", "pod", min(left))
        await in_clusters(fleet, place, {"eu"}, 3)
        await fleet.kubectl("cd", "-n", place, "scale", "deployment/web", f"--replicas={REPLICAS}")
        await asked.met(await in_clusters(fleet, place, {"eu"}))


async def test_a_move_and_a_drain_lose_no_request(fleet: Fleet, place: str) -> None:
    budget = {"minAvailable": REPLICAS - 2, "selector": {"matchLabels": {"app": "web"}}}
    await fleet.source.create(BUDGETS, {"metadata": {"name": "web"}, "spec": budget}, place)
    async with unnoticed(fleet, place) as asked:
        await say(fleet, place, {TARGETS: "us"})
        await asked.met(await in_clusters(fleet, place, {"us"}))
        await say(fleet, place, {TARGETS: "us,eu"})
        node = virtual_node(place, "us")
        drain = ("drain", node, "--pod-selector=app=web", "--ignore-daemonsets", f"--timeout={PATIENCE_SECONDS:.0f}s")
        await fleet.kubectl("cd", *drain)
        await asked.met(await in_clusters(fleet, place, {"eu"}))
    await fleet.kubectl("cd", "uncordon", node)
    await fleet.source.delete(BUDGETS, "web", place)


@pytest.mark.parametrize(("flags", "seconds"), [(("--grace-period=3",), 12), (("--now",), 10)], ids=["grace", "now"])
async def test_a_program_that_ignores_sigterm_ends_with_the_grace_period_of_its_deletion(
    fleet: Fleet, place: str, flags: tuple[str, ...], seconds: float
) -> None:
    """Seconds are those of a plain cluster, and what a busy machine needs besides; its own grace period is 60 s."""
    pod = web()["spec"]["template"]
    pod["metadata"] = {"name": "stubborn", "annotations": pod["metadata"]["annotations"]}
    container = {key: value for key, value in pod["spec"]["containers"][0].items() if key != "readinessProbe"}
    pod["spec"] = {"containers": [{**container, "command": STUBBORN}], "terminationGracePeriodSeconds": 60}
    await fleet.source.create(PODS, pod, place)

    async def runs() -> bool:
        return bool((await fleet.source.get(PODS, "stubborn", place))["status"].get("phase") == "Running")

    await fleet.until("it runs", runs, about=place, seconds=PATIENCE_SECONDS)
    began = time.monotonic()
    await fleet.kubectl("cd", "-n", place, "delete", "pod", "stubborn", *flags)
    assert time.monotonic() - began < seconds
