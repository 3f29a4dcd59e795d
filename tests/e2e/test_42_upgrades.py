"""Promise 42: no request fails during an upgrade from the version that rewrote selectors, or a downgrade to it.

Every cluster sends 50 requests per second on new connections: to its own address of the Service, and to
endpoints in the source's slices. Pods are replaced while the clusters run different versions."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import SERVICES
from agent.api.names import PREFIX, USE_CONSTRAINTS
from hack.lab.benchmarks import trees
from hack.lab.sandbox.objects import REPOSITORY
from tests.e2e import shared, webpods
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, REGION
from tests.e2e.shared import CLUSTERS
from tests.e2e.traffic import Traffic, traffic
from tests.e2e.webpods import PATIENCE_SECONDS, REPLICAS, in_clusters

pytestmark = [
    pytest.mark.realnodes,
    pytest.mark.seldom,
    pytest.mark.usefixtures("processes_only"),
]

Raw = dict[str, Any]
BEFORE = "572d0f93"
"""Last commit whose agents rewrote the selector of every Service that selects proxy pods."""
TARGETS = ("us", "eu")
ORDERS = {"targets first": (TARGETS, ("cd",)), "source first": (("cd",), TARGETS)}
SERVES_ON = "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"
"""Web server that ignores SIGTERM: the old version ends pods without a pause, so they have to keep serving for
a while."""
SECONDS_TO_SERVE_ON = 30


class Steps:
    """Log of the test's steps, which shows during which step a request failed."""

    def __init__(self) -> None:
        self._steps = [(time.time(), "nothing")]

    def now(self, step: str) -> None:
        """Record the start of a step."""
        print(time.strftime("%T"), step, flush=True)
        self._steps.append((time.time(), step))

    def failures(self, asked: Traffic) -> list[str]:
        """Return a line for each failed request: its client, and the last step before the request ended."""
        return [
            f"{client}: {each['ended'] - since:.1f} s after: {step}"
            for client, result in asked.results.items()
            for each in result["failures"]
            for since, step in [max(known for known in self._steps if known[0] <= each["ended"])]
        ]


@contextlib.asynccontextmanager
async def no_request_fails(fleet: Fleet, namespace: str) -> AsyncIterator[tuple[Traffic, Steps]]:
    """Context manager that sends requests and fails if one of them fails."""
    began, steps = time.monotonic(), Steps()
    async with traffic(fleet, namespace, "web") as asked:
        yield asked, steps
    failures = steps.failures(asked)
    assert not failures, "\n".join([f"{len(failures)} requests failed:", *failures])
    asked.none_failed(time.monotonic() - began)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source tree of the old version."""
    folder = tmp_path_factory.mktemp("before") / "tree"
    if not await asyncio.to_thread(trees.checkout, folder, BEFORE):
        pytest.skip(f"the history does not go back to {BEFORE}")
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """Namespace with a Service and a Deployment in both targets. Afterwards all agents run this version again."""
    try:
        async with fleet.namespace() as namespace:
            await fleet.source.create(SERVICES, shared.service("web"), namespace)
            await fleet.source.create(DEPLOYMENTS, web(), namespace)
            pods = await in_clusters(fleet, namespace, set(TARGETS))
            # A kube-proxy that has just received a Service refuses its first requests, in a plain cluster, too.
            async with traffic(fleet, namespace, "web") as asked:
                await asked.met(pods)
            yield namespace
    finally:
        await run(fleet, REPOSITORY, CLUSTERS)


async def run(fleet: Fleet, sources: Path, clusters: Sequence[str]) -> None:
    """Restart agents and webhooks of these clusters from a source tree, one cluster after the other."""
    for cluster in clusters:
        await trees.run_from(fleet.sandbox, cluster, sources)


def web() -> Raw:
    """Return a Deployment for both targets whose pods keep serving after SIGTERM."""
    made = webpods.web()
    template = made["spec"]["template"]
    template["metadata"]["annotations"][PREFIX + USE_CONSTRAINTS] = ""
    template["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": REGION,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    template["spec"]["terminationGracePeriodSeconds"] = SECONDS_TO_SERVE_ON
    template["spec"]["containers"][0]["command"] = ["sh", "-c", SERVES_ON]
    return made


async def replaced(fleet: Fleet, namespace: str) -> set[str]:
    """Restart the Deployment's rollout and return the names of its pods once all of them are new."""
    old = {pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web")}
    await fleet.kubectl("cd", "-n", namespace, "rollout", "restart", "deployment/web")

    async def all_new() -> bool:
        pods = {pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web")}
        return len(pods) == REPLICAS and not pods & old

    await fleet.until("all pods are new", all_new, about=namespace, seconds=PATIENCE_SECONDS)
    return await in_clusters(fleet, namespace, set(TARGETS))


async def rewritten_by_this_version(fleet: Fleet, namespace: str) -> None:
    """Make this version rewrite selectors, as the page on upgrades requires, so that each copy keeps endpoints."""
    await shared.reroutes(fleet, namespace, "always")
    await shared.rerouted(fleet, namespace, "web")
    await shared.known_everywhere(fleet, namespace, "web", REPLICAS)


async def as_this_version_wants(fleet: Fleet, namespace: str) -> None:
    """Wait until the Service has the user's selector, no mirror in the source, and nothing from the old
    version."""
    await shared.marked(fleet, namespace, "web")
    await shared.no_slices(fleet, namespace, "web", ["cd"])
    await as_a_new_one(fleet, namespace)


async def as_the_version_before_wants(fleet: Fleet, namespace: str) -> None:
    """Wait until the selector selects delegates and nothing from the new version is left."""
    await shared.rerouted(fleet, namespace, "web")
    await as_a_new_one(fleet, namespace)


async def as_a_new_one(fleet: Fleet, namespace: str) -> None:
    """Wait until the Service equals a newly created one for the same pods, in every cluster."""
    await fleet.source.create(SERVICES, {**shared.service("web"), "metadata": {"name": "new"}}, namespace)
    differ: list[Raw] = []

    async def alike() -> bool:
        found = {name: [await of_service(fleet, namespace, name, each) for each in CLUSTERS] for name in ("web", "new")}
        differ[:] = [found] if found["web"] != found["new"] else []
        addresses = [await shared.ready(fleet, namespace, "new", each) for each in CLUSTERS]
        return not differ and all(len(each) == REPLICAS for each in addresses)

    try:
        await fleet.until("the Service is like a new one", alike, about=namespace, seconds=PATIENCE_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{differ}") from error
    await fleet.source.delete(SERVICES, "new", namespace)
    await shared.gone(fleet, SERVICES, namespace, "new", CLUSTERS)


async def of_service(fleet: Fleet, namespace: str, name: str, cluster: str) -> Raw:
    """Return the fields of a Service that agents write: selector, labels, annotations, conditions. Leave out
    name and UID."""
    uid = (await fleet.source.get(SERVICES, name, namespace))["metadata"]["uid"]
    found = await fleet.clients[cluster].get(SERVICES, name, namespace)

    def without(values: dict[str, str] | None) -> dict[str, str]:
        return {key: value for key, value in (values or {}).items() if value not in (name, uid)}

    metadata = {field: without(found["metadata"].get(field)) for field in ("labels", "annotations")}
    conditions = {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}
    return {**metadata, "selector": found["spec"]["selector"], "conditions": conditions}


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("change", ["upgrade", "downgrade"])
async def test_no_request_fails_and_nothing_of_the_other_version_is_left(
    fleet: Fleet, place: str, before: Path, change: str, order: str
) -> None:
    first, last = ORDERS[order]
    if change == "upgrade":
        sources, settled = REPOSITORY, as_this_version_wants
        await run(fleet, before, CLUSTERS)
        await as_the_version_before_wants(fleet, place)
    else:
        sources, settled = before, as_the_version_before_wants
        await run(fleet, REPOSITORY, CLUSTERS)
    async with no_request_fails(fleet, place) as (asked, steps):
        if change == "downgrade":
            steps.now("this version rewrites selectors")
            await rewritten_by_this_version(fleet, place)
        steps.now(f"{change} of {first}")
        await run(fleet, sources, first)
        steps.now(f"rollout after the {change} of {first}")
        await asked.met(await replaced(fleet, place))
        steps.now(f"{change} of {last}")
        await run(fleet, sources, last)
        await settled(fleet, place)
        await shared.known_everywhere(fleet, place, "web", REPLICAS)
        steps.now(f"rollout after the {change} of all clusters")
        await asked.met(await replaced(fleet, place))
        await settled(fleet, place)
