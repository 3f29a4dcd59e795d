"""Promise 62: whatever has pods end, no request is lost, on real containers that end at once when they are told to.

Fifty requests a second, from every cluster to the Service's address there and from one to the endpoints in its slices,
each on a new connection, with a history of every state of the Deployment. Where Traefik is built, some of them go
through it in every cluster, which serves the Ingress in front of the Service.
"""

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import NAMESPACES, SERVICES
from agent.api.kinds import TARGETS as TARGETS_KIND
from agent.api.names import PREFIX, SHORT_PREFIX, SHUTDOWN_DELAY
from agent.api.names.lifecycle import RETIRE
from agent.sandbox import SandboxError, binaries
from agent.sandbox.progress import Silent
from tests.cli.command import flotilla
from tests.e2e import shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, ELECT, STATEFULSETS
from tests.e2e.shared import CLUSTERS
from tests.e2e.test_12_drain import BUDGETS
from tests.e2e.traefik import ingress, traefik
from tests.e2e.traffic import History, Traffic, history, traffic

pytestmark = [pytest.mark.realnodes, pytest.mark.seldom]

Raw = dict[str, Any]
IMAGE = {"image": "flotilla.local/busybox:1", "imagePullPolicy": "Never"}
REPLICAS, SURGE = 6, 2
SERVE = """
mkdir /www; hostname > /www/index.html; httpd -f -p 8080 -h /www &
trap "kill -9 $!; exit 143" TERM; wait
"""
"""Ends at once when it is told to, with whatever it is answering."""
NO_HURRY = {"timeoutSeconds": 30, "failureThreshold": 10}
DELAY = 8
GRACE = 60
"""Long enough for the pause that these agents make before a pod ends."""
TARGETS = SHORT_PREFIX + "targets"
PATIENCE_SECONDS = 600.0
long = pytest.mark.timeout(1500)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace whose pods go to eu, with the Deployment of six and its Service."""
    async with fleet.namespace() as namespace:
        await say(fleet, namespace, {TARGETS: "eu"})
        await fleet.source.create(SERVICES, shared.service("web"), namespace)
        await fleet.source.create(DEPLOYMENTS, web(), namespace)
        await in_clusters(fleet, namespace, {"eu"})
        await shared.marked(fleet, namespace, "web")
        yield namespace


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ingresses(fleet: Fleet, place: str) -> AsyncIterator[dict[str, str]]:
    """Addresses of an ingress controller in each cluster; none where it is not built."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            program = await binaries.traefik(Silent(), compile=False)
        except SandboxError as error:
            print(f"no requests go through an ingress controller: {error}")
            yield {}
            return
        await ingress(fleet, place, "web")
        yield await stack.enter_async_context(traefik(fleet, CLUSTERS, place, program))


def web(name: str = "web", replicas: int = REPLICAS) -> Raw:
    container = {
        "name": "main",
        **IMAGE,
        "command": ["sh", "-c", SERVE],
        # What a busy machine does to its pods is not asked here, only what moves do.
        "readinessProbe": {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1, **NO_HURRY},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": GRACE}
    template = {"metadata": {"labels": {"app": name}, "annotations": {ELECT: ""}}, "spec": spec}
    strategy = {"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": 0}}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "strategy": strategy}
    metadata = {"name": name, "labels": {"app": name}}
    return {"metadata": metadata, "spec": {**wanted, "template": template}}


async def say(fleet: Fleet, namespace: str, annotations: dict[str, str | None]) -> None:
    """Annotate the namespace."""
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": annotations}})


async def in_clusters(
    fleet: Fleet, namespace: str, clusters: set[str], count: int = REPLICAS, app: str = "web"
) -> set[str]:
    """Wait until exactly so many pods are ready, all of them there, and known everywhere; their names."""

    async def probe() -> list[Raw]:
        pods = await fleet.pods(namespace, app)
        delegates = await fleet.delegates(namespace)
        found = [delegates.get(pod["metadata"]["uid"], ("nowhere", {}))[0] for pod in pods]
        of_app = [pod for _, pod in delegates.values() if pod["metadata"]["labels"].get(PREFIX + "app") == app]
        right = len(pods) == len(of_app) == count and {*found} <= clusters
        return pods if right and all(map(shared.is_ready, pods)) else []

    where = " and ".join(sorted(clusters))
    pods = await fleet.until(f"{count} pods are ready in {where}", probe, about=namespace, seconds=PATIENCE_SECONDS)
    if app == "web" and len(await fleet.delegates(namespace)) == count:
        await shared.known_everywhere(fleet, namespace, "web", count)
    return {pod["metadata"]["name"] for pod in pods}


def kept(found: History, asked: Traffic, began: float, *, surge: int) -> None:
    """Nobody has noticed anything."""
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
    async with traffic(fleet, place, "web", ingresses) as asked, history(fleet, place, "web") as found:
        await asked.met(before)
        await say(fleet, place, {TARGETS: there})
        after = await in_clusters(fleet, place, {there})
        await asked.met(after)
    assert not before & after
    kept(found, asked, began, surge=SURGE)
    assert len(found.revisions) == len(found.replica_sets) == 1, "it is the same ReplicaSet and revision"


@long
async def test_a_stateful_set_moves_pod_by_pod_and_no_request_is_lost(fleet: Fleet) -> None:
    """It cannot have a pod more: each is evicted."""
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
    # To where they are, too: nothing moves for that.
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
    """Wait until both Deployments are in a cluster."""
    await in_clusters(fleet, place, {cluster})
    await in_clusters(fleet, place, {cluster}, 1, app="one")


@contextlib.asynccontextmanager
async def unnoticed(fleet: Fleet, place: str, ingresses: dict[str, str]) -> AsyncIterator[None]:
    """Whatever becomes of a target meanwhile, no request fails and no Deployment has fewer pods."""
    began = time.monotonic()
    async with (
        traffic(fleet, place, "web", ingresses) as asked,
        history(fleet, place, "web") as found,
        history(fleet, place, "one") as single,
    ):
        yield
    kept(found, asked, began, surge=SURGE)
    assert min(single.available) >= 1, "the single replica was always there"


async def retire(fleet: Fleet, namespace: str, target: str, value: str | None) -> None:
    """Have a target emptied, or used again."""
    body = {"metadata": {"annotations": {SHORT_PREFIX + RETIRE: value}}}
    await fleet.source.patch(TARGETS_KIND, target, body, namespace)


@long
async def test_a_rolling_update_with_a_shutdown_delay_loses_no_request(fleet: Fleet, place: str) -> None:
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
    async with traffic(fleet, place, "web") as asked, history(fleet, place, "web") as found:
        await asked.met(before)
        again = {"spec": {"template": {"metadata": {"annotations": {"example.test/again": "1"}}}}}
        await fleet.source.patch(DEPLOYMENTS, "web", again, place)
        after = await rolled_out(fleet, place)
        await asked.met(after)
    assert not before & after
    # Each ReplicaSet has a turn of its own: that the new one is a pod ahead is not ours.
    kept(found, asked, began, surge=2 * SURGE)


async def rolled_out(fleet: Fleet, namespace: str) -> set[str]:
    """Names of the pods, once all are of the newest template."""

    async def probe() -> bool:
        found = await fleet.source.get(DEPLOYMENTS, "web", namespace)
        status = found["status"]
        counts = [status.get(field, 0) for field in ("updatedReplicas", "replicas", "availableReplicas")]
        return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [REPLICAS] * 3

    await fleet.until("the Deployment is rolled out", probe, about=namespace, seconds=PATIENCE_SECONDS)
    return await in_clusters(fleet, namespace, {"eu"})
