"""Promise 42: no request fails while agents are upgraded from the version that rewrote selectors, or set back to it.

Fifty requests a second on new connections, from every cluster to the Service's address there and to endpoints in the
source's slices. Pods are replaced while some clusters have the one version and others the other.
"""

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
"""The last commit whose agents rewrote the selector of every Service that selects proxy pods."""
TARGETS = ("us", "eu")
ORDERS = {"targets first": (TARGETS, ("cd",)), "source first": (("cd",), TARGETS)}
SERVES_ON = "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"
"""Ignores SIGTERM: the version before does not pause before pods end, so that they have to serve on for a while."""
SECONDS_TO_SERVE_ON = 30


class Steps:
    """What was done when, to tell what requests that failed met with."""

    def __init__(self) -> None:
        self._steps = [(time.time(), "nothing")]

    def now(self, step: str) -> None:
        """Note that a step begins."""
        print(time.strftime("%T"), step, flush=True)
        self._steps.append((time.time(), step))

    def failures(self, asked: Traffic) -> list[str]:
        """Return for each request that failed its client, and the last step before it ended."""
        return [
            f"{client}: {each['ended'] - since:.1f} s after: {step}"
            for client, result in asked.results.items()
            for each in result["failures"]
            for since, step in [max(known for known in self._steps if known[0] <= each["ended"])]
        ]


@contextlib.asynccontextmanager
async def no_request_fails(fleet: Fleet, namespace: str) -> AsyncIterator[tuple[Traffic, Steps]]:
    """Context in which requests are sent; none of them may fail."""
    began, steps = time.monotonic(), Steps()
    async with traffic(fleet, namespace, "web") as asked:
        yield asked, steps
    failures = steps.failures(asked)
    assert not failures, "\n".join([f"{len(failures)} requests failed:", *failures])
    asked.none_failed(time.monotonic() - began)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the version before."""
    folder = tmp_path_factory.mktemp("before") / "tree"
    if not await asyncio.to_thread(trees.checkout, folder, BEFORE):
        pytest.skip(f"the history does not go back to {BEFORE}")
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace with a Deployment in both targets and its Service. Afterwards all agents are of this version."""
    try:
        async with fleet.namespace() as namespace:
            await fleet.source.create(SERVICES, shared.service("web"), namespace)
            await fleet.source.create(DEPLOYMENTS, web(), namespace)
            pods = await in_clusters(fleet, namespace, set(TARGETS))
            # kube-proxies that have just heard of the Service refuse its first requests, on a plain cluster, too.
            async with traffic(fleet, namespace, "web") as asked:
                await asked.met(pods)
            yield namespace
    finally:
        await run(fleet, REPOSITORY, CLUSTERS)


async def run(fleet: Fleet, sources: Path, clusters: Sequence[str]) -> None:
    """Have agents and webhooks of these clusters run from some code, one cluster after the other."""
    for cluster in clusters:
        await trees.run_from(fleet.sandbox, cluster, sources)


def web() -> Raw:
    """Pods in both targets that serve on after SIGTERM."""
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
    """Roll the Deployment out again; return the names of its pods once there are no others."""
    old = {pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web")}
    await fleet.kubectl("cd", "-n", namespace, "rollout", "restart", "deployment/web")

    async def all_new() -> bool:
        pods = {pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web")}
        return len(pods) == REPLICAS and not pods & old

    await fleet.until("all pods are new", all_new, about=namespace, seconds=PATIENCE_SECONDS)
    return await in_clusters(fleet, namespace, set(TARGETS))


async def rewritten_by_this_version(fleet: Fleet, namespace: str) -> None:
    """Have this version rewrite selectors, as the page on upgrades says: no copy is without endpoints then."""
    await shared.reroutes(fleet, namespace, "always")
    await shared.rerouted(fleet, namespace, "web")
    await shared.known_everywhere(fleet, namespace, "web", REPLICAS)


async def as_this_version_wants(fleet: Fleet, namespace: str) -> None:
    """Wait until the selector is the user's, and the source has no mirrors; nothing may be left of the one before."""
    await shared.marked(fleet, namespace, "web")
    await shared.no_slices(fleet, namespace, "web", ["cd"])
    await as_a_new_one(fleet, namespace)


async def as_the_version_before_wants(fleet: Fleet, namespace: str) -> None:
    """Wait until the selector is the one for delegates; nothing may be left of the version after."""
    await shared.rerouted(fleet, namespace, "web")
    await as_a_new_one(fleet, namespace)


async def as_a_new_one(fleet: Fleet, namespace: str) -> None:
    """Wait until the Service is in every cluster like one for the same pods that this test creates now."""
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
    """Return what agents write of a Service: selector, labels and annotations, without its name and UID."""
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
