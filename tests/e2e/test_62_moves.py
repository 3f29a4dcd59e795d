"""Promise 62: no request is lost when pods end for any reason. Real containers, which end at once on SIGTERM.

The clients send 50 requests per second on new connections, by the ways that `traffic` lists. A history records
every state of the Deployment."""

import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import SERVICES
from agent.api.names import SHORT_PREFIX, SHUTDOWN_DELAY
from tests.cli.command import flotilla
from tests.e2e import shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS
from tests.e2e.test_12_drain import BUDGETS
from tests.e2e.traffic import History, Traffic, history, traffic
from tests.e2e.webpods import GRACE, HEADLESS, REPLICAS, SURGE, TARGETS, in_clusters, retire, rolled_out, say, web

pytestmark = [pytest.mark.realnodes, pytest.mark.seldom]

DELAY = 8
long = pytest.mark.timeout(1500)


def kept(found: History, asked: Traffic, began: float, *, surge: int) -> None:
    """Check that no request failed and that the number of pods stayed in its limits."""
    asked.none_failed(time.monotonic() - began)
    assert min(found.available) >= REPLICAS, f"fewer were available: {found.available}"
    assert max(found.pods) <= REPLICAS + surge, f"there were more pods: {found.pods}"


@pytest.mark.parametrize(("here", "there"), [("eu", "us"), ("us", "eu")], ids=["there", "back"])
@long
async def test_a_deployment_moves_by_one_annotation_and_nobody_notices(
    fleet: Fleet, place: str, ingresses: dict[str, str], here: str, there: str
) -> None:
    before = await in_clusters(fleet, place, {here})
    began = time.monotonic()
    async with traffic(fleet, place, "web", ingresses, HEADLESS) as asked, history(fleet, place, "web") as found:
        await asked.met(before)
        await say(fleet, place, {TARGETS: there})
        after = await in_clusters(fleet, place, {there})
        await asked.met(after)
    assert not before & after
    kept(found, asked, began, surge=SURGE)
    assert len(found.revisions) == len(found.replica_sets) == 1, "it is the same ReplicaSet and revision"


@long
async def test_a_stateful_set_moves_pod_by_pod_and_no_request_is_lost(fleet: Fleet) -> None:
    """A StatefulSet cannot surge, so each pod is evicted."""
    made = web(replicas=3)
    del made["spec"]["strategy"]
    async with fleet.namespace() as namespace:
        await say(fleet, namespace, {TARGETS: "eu"})
        await fleet.source.create(SERVICES, shared.service("web"), namespace)
        await fleet.source.create(STATEFULSETS, {**made, "spec": {**made["spec"], "serviceName": "web"}}, namespace)
        before = await in_clusters(fleet, namespace, {"eu"}, 3)
        await shared.marked(fleet, namespace, "web")
        began = time.monotonic()
        async with traffic(fleet, namespace, "web") as asked, history(fleet, namespace, "web") as found:
            await asked.met(before)
            await say(fleet, namespace, {TARGETS: "us"})
            assert await in_clusters(fleet, namespace, {"us"}, 3) == before, "they keep their names"
        asked.none_failed(time.monotonic() - began)
        assert min(found.pods) >= 2, f"more than one was away: {found.pods}"
        assert max(found.pods) <= 3, f"there were two of a name: {found.pods}"


@long
async def test_targets_are_retired_and_drained_and_a_single_replica_with_a_budget_goes_along(
    fleet: Fleet, place: str, ingresses: dict[str, str]
) -> None:
    one = web("one", 1)
    await fleet.source.create(DEPLOYMENTS, one, place)
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "one"}}}
    await fleet.source.create(BUDGETS, {"metadata": {"name": "one"}, "spec": budget}, place)
    await in_clusters(fleet, place, {"eu"}, 1, app="one")
    await in_clusters(fleet, place, {"eu"})
    # Listing the current target as well moves no pod.
    await say(fleet, place, {TARGETS: "us,eu"})
    async with unnoticed(fleet, place, ingresses):
        await retire(fleet, place, "eu", "true")
        await all_in(fleet, place, "us")
    await retire(fleet, place, "eu", None)
    verbs = ("-n", place, "--kubeconfig", str(fleet.sandbox["cd"].kubeconfig))
    async with unnoticed(fleet, place, ingresses):
        code, output, errors = await flotilla("drain", "us", *verbs)
        assert code == 0, errors
        assert "drained, and closed until it is undrained" in output
        await all_in(fleet, place, "eu")
    assert (await flotilla("undrain", "us", *verbs))[0] == 0
    await fleet.source.delete(DEPLOYMENTS, "one", place)
    await say(fleet, place, {TARGETS: "eu"})
    await in_clusters(fleet, place, {"eu"})


async def all_in(fleet: Fleet, place: str, cluster: str) -> None:
    """Wait until both Deployments run in a cluster."""
    await in_clusters(fleet, place, {cluster})
    await in_clusters(fleet, place, {cluster}, 1, app="one")


@contextlib.asynccontextmanager
async def unnoticed(fleet: Fleet, place: str, ingresses: dict[str, str]) -> AsyncIterator[None]:
    """Context manager that checks that no request fails and no Deployment has fewer available pods."""
    began = time.monotonic()
    async with (
        traffic(fleet, place, "web", ingresses, HEADLESS) as asked,
        history(fleet, place, "web") as found,
        history(fleet, place, "one") as single,
    ):
        yield
    kept(found, asked, began, surge=SURGE)
    assert min(single.available) >= 1, "the single replica was always there"


@long
async def test_a_rolling_update_with_a_shutdown_delay_loses_no_request(
    fleet: Fleet, place: str, ingresses: dict[str, str]
) -> None:
    delay = {"spec": {"template": {"metadata": {"annotations": {SHORT_PREFIX + SHUTDOWN_DELAY: str(DELAY)}}}}}
    await fleet.source.patch(DEPLOYMENTS, "web", delay, place)
    before = await rolled_out(fleet, place)
    for cluster, pod in (await fleet.delegates(place)).values():
        assert cluster == "eu"
        (container,) = pod["spec"]["containers"]
        assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": DELAY}}}
        assert pod["spec"]["terminationGracePeriodSeconds"] == GRACE + DELAY
    for pod in await fleet.pods(place, "web"):
        assert "lifecycle" not in pod["spec"]["containers"][0], "the user's own pod stays as it is"
    began = time.monotonic()
    async with traffic(fleet, place, "web", ingresses, HEADLESS) as asked, history(fleet, place, "web") as found:
        await asked.met(before)
        again = {"spec": {"template": {"metadata": {"annotations": {"example.test/again": "1"}}}}}
        await fleet.source.patch(DEPLOYMENTS, "web", again, place)
        after = await rolled_out(fleet, place)
        await asked.met(after)
    assert not before & after
    # Each ReplicaSet may have an extra pod; the new one's comes from the rollout, not from Flotilla.
    kept(found, asked, began, surge=2 * SURGE)
