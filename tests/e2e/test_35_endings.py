"""Promise 35: pods that exit immediately on SIGTERM lose no request, however they end, without changes to their
manifest.

Clients send fifty requests per second on new connections, in the ways that `traffic` describes. In every
cluster they use the Service's address, the addresses of a headless name, and an ingress controller if Traefik
is built (`flotilla sandbox programs --traefik`). In the source they also use the endpoints in its
EndpointSlices.
"""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import PODS
from agent.api.names import virtual_node
from tests.e2e.fleet import Fleet
from tests.e2e.test_12_drain import BUDGETS
from tests.e2e.traffic import Traffic, traffic
from tests.e2e.webpods import (
    HEADLESS,
    PATIENCE_SECONDS,
    REPLICAS,
    TARGETS,
    in_clusters,
    retire,
    rolled_out,
    say,
    web,
)

pytestmark = [
    pytest.mark.realnodes,
    pytest.mark.full("Minutes of requests to real containers; tests on real API servers hold each step of the pause."),
    pytest.mark.timeout(900),
]

STUBBORN = ["sh", "-c", "trap : TERM; while :; do sleep 1; done"]


@contextlib.asynccontextmanager
async def unnoticed(fleet: Fleet, place: str, ingresses: dict[str, str]) -> AsyncIterator[Traffic]:
    """Send requests from clients during the block, and check that none fails."""
    began = time.monotonic()
    async with traffic(fleet, place, "web", ingresses, HEADLESS) as asked:
        yield asked
    asked.none_failed(time.monotonic() - began)


async def test_a_rollout_a_scale_down_and_a_deletion_lose_no_request(
    fleet: Fleet, place: str, ingresses: dict[str, str]
) -> None:
    async with unnoticed(fleet, place, ingresses) as asked:
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


async def test_a_move_a_retired_target_and_a_drain_lose_no_request(
    fleet: Fleet, place: str, ingresses: dict[str, str]
) -> None:
    budget = {"minAvailable": REPLICAS - 2, "selector": {"matchLabels": {"app": "web"}}}
    await fleet.source.create(BUDGETS, {"metadata": {"name": "web"}, "spec": budget}, place)
    async with unnoticed(fleet, place, ingresses) as asked:
        before = await in_clusters(fleet, place, {"eu"})
        await asked.met(before)
        await say(fleet, place, {TARGETS: "us"})
        moved = await in_clusters(fleet, place, {"us"})
        await asked.met(moved)
        await say(fleet, place, {TARGETS: "us,eu"})
        await retire(fleet, place, "us", "true")
        retired = await in_clusters(fleet, place, {"eu"})
        await asked.met(retired)
        await retire(fleet, place, "us", None)
        node = virtual_node(place, "eu")
        drain = ("drain", node, "--pod-selector=app=web", "--ignore-daemonsets", f"--timeout={PATIENCE_SECONDS:.0f}s")
        await fleet.kubectl("cd", *drain)
        drained = await in_clusters(fleet, place, {"us"})
        await asked.met(drained)
    for one, next_one in itertools.pairwise((before, moved, retired, drained)):
        assert one.isdisjoint(next_one), "every pod is replaced each time"
    await fleet.kubectl("cd", "uncordon", node)
    await fleet.source.delete(BUDGETS, "web", place)


@pytest.mark.parametrize(("flags", "seconds"), [(("--grace-period=3",), 12), (("--now",), 10)], ids=["grace", "now"])
async def test_a_program_that_ignores_sigterm_ends_with_the_grace_period_of_its_deletion(
    fleet: Fleet, place: str, flags: tuple[str, ...], seconds: float
) -> None:
    """The limit is that of a plain cluster plus a margin for a busy machine; the pod's own grace period is 60
    s."""
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
