"""`helm upgrade` from the chart whose single source role held all features' rights, with live pods and
Services.

Source and target have one real node for the chart's pods and fake nodes for delegates. Witnesses record each
loss from before the upgrade until long after it; none is allowed."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from agent.api.admission import policies
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SOURCES,
    ENDPOINT_SLICES,
    INGRESSES,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from agent.api.roles import EVERYTHING, FEATURES, NAMED_FEATURES, SOURCE, SOURCE_ROLE, feature_role, rules
from agent.cli.checks.rights import missing
from hack.lab.sandbox import Sandbox, ownimage
from hack.lab.sandbox.objects import REPOSITORY
from tests.chart import helm, previous, witnesses
from tests.chart.conftest import clear
from tests.chart.helm import NAMESPACE
from tests.chart.witnesses import Changes, Rights, watching
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.values import IMAGE, values
from tests.sandbox.realnode.conftest import kubectl, why_not
from tests.waiting import until

pytestmark = [
    pytest.mark.seldom,
    pytest.mark.cluster,
    pytest.mark.e2e,
    pytest.mark.timeout(440),
    pytest.mark.asyncio(loop_scope="module"),
]

Raw = dict[str, Any]

CLUSTERS = ("cd", "us")
SHOP, PODS_BEFORE = "shop", 50
SHARED = ("web", "api")
KEPT = [name for name in FEATURES if name not in NAMED_FEATURES]
"""Features in the old role. A Source has to list the features that were added later."""
BY_HAND = ((ROLE_BINDINGS, "anne"), (CLUSTER_ROLE_BINDINGS, "bert"))
"""Bindings that an administrator created without a Source: kind and user."""
USERS = (*(f"system:serviceaccount:{SHOP}:{name}" for name in CLUSTERS), *(name for _, name in BY_HAND))
WATCHED = (
    (PODS, witnesses.of_a_pod),
    (SERVICES, witnesses.of_a_service),
    (ENDPOINT_SLICES, witnesses.of_endpoints),
    (INGRESSES, witnesses.of_any),
    (CHAPERONS, witnesses.of_any),
)
LATER_SECONDS = 20.0
"""Seconds longer than a stopped agent's lease, so that its successor has reconciled everything."""


@dataclass(frozen=True)
class Shop:
    """The workload and its witnesses."""

    fleet: Fleet
    rights: Rights
    changes: list[Changes]

    @property
    def losses(self) -> list[str]:
        """Losses that all witnesses have recorded."""
        return [loss for each in (self.rights, *self.changes) for loss in each.losses]

    def __str__(self) -> str:
        """Frequency and number of the observations so far."""
        rounds = f"{len(self.rights.rounds)} rounds, {self.rights.longest:.2f} s apart at most"
        objects, seen = sum(len(each.objects) for each in self.changes), sum(each.seen for each in self.changes)
        return (
            f"{self.rights.asked} reviews in {rounds}; {seen} changes of {objects} objects; {len(self.losses)} losses"
        )

    async def upgrade(self, cluster: str) -> tuple[float, str]:
        """Upgrade to this chart. Return the duration in seconds and the hook's log."""
        started = time.monotonic()
        said = asyncio.ensure_future(hook_said(self.fleet, cluster))
        try:
            await apply(self.fleet.sandbox, "upgrade", cluster, "new")
            return time.monotonic() - started, await said
        finally:
            said.cancel()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Both clusters with the chart from before feature roles, and the images of both versions."""
    before = previous.before("charts/flotilla/templates/upgrade.yaml")
    if reason := why_not() or ("" if before else "the history does not go back to the chart before"):
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("upgrade") / "two"
    async with Sandbox(directory, CLUSTERS, "real:1+kwok:3", agents=False) as sandbox:
        await asyncio.gather(*(clear(cluster) for cluster in sandbox.clusters))
        old = await asyncio.to_thread(previous.checkout, directory / "old", before)
        file, sources = directory / "images.tar", {f"{IMAGE}:old": old, f"{IMAGE}:new": REPOSITORY}
        await sandbox.load(await asyncio.to_thread(ownimage.build_all, file, sources))
        file.unlink()
        await asyncio.gather(*(apply(sandbox, "install", name, "old") for name in CLUSTERS))
        yield sandbox


async def apply(sandbox: Sandbox, verb: str, cluster: str, tag: str) -> None:
    """Run `helm install` or `helm upgrade`."""
    found = values(cluster, (), candidate_scheduler=False)
    found["image"]["tag"] = tag
    file = sandbox.directory / f"{cluster}.json"
    file.write_text(json.dumps(found))
    chart = (sandbox.directory / "old" if tag == "old" else REPOSITORY) / "charts" / "flotilla"
    words = (verb, "flotilla", str(chart), "-n", NAMESPACE, "--wait", "--timeout=6m", "-f", str(file))
    await asyncio.to_thread(helm.run, *words, kubeconfig=sandbox[cluster].kubeconfig)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(sandbox: Sandbox) -> AsyncIterator[Shop]:
    """Source pods that run in the target, with two Services and an Ingress that select them in both clusters."""
    fleet = Fleet(sandbox)
    try:
        async with fleet.namespace(("us",), name=SHOP):
            await grant(fleet)
            await open_shop(fleet)
            granted = (await fleet.clients["us"].get(CLUSTER_ROLES, SOURCE_ROLE))["rules"]
            held = tuple(each for each in EVERYTHING if each not in missing(granted))
            assert triples(granted) == triples(rules(held)), "today's table lacks what this role grants"
            changes = [
                await Changes.of(client, kind, SHOP, loss)
                for client in fleet.clients.values()
                for kind, loss in WATCHED
            ]
            rights = Rights(fleet.clients["us"], SHOP, USERS, held)
            async with watching(rights, *changes):
                yield Shop(fleet, rights, changes)
    finally:
        await fleet.close()


async def grant(fleet: Fleet) -> None:
    """Create a ClusterSource, and bindings without a Source, in the target."""
    us, reference = fleet.clients["us"], {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": SOURCE_ROLE}
    spec = {"serviceAccount": {"name": "us", "namespace": SHOP}}
    await us.create(CLUSTER_SOURCES, manifests.ours("ClusterSource", "wide", None, spec))
    for kind, user in BY_HAND:
        subjects = [{"apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": user}]
        binding = {"metadata": {"name": f"of-{user}"}, "roleRef": reference, "subjects": subjects}
        await us.create(kind, binding, SHOP if kind.namespaced else None)
    await fleet.until("the ClusterSource's account", lambda: us.get(SERVICE_ACCOUNTS, "us", SHOP))


async def open_shop(fleet: Fleet) -> None:
    """Create the workload and wait until both clusters have its endpoints."""
    await fleet.source.create(SERVICES, shared.service("web"), SHOP)
    marked = shared.service("api", {"multicluster/global": "true"}, selector={"app": "web"})
    await fleet.source.create(SERVICES, marked, SHOP)
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    await fleet.source.create(INGRESSES, {"metadata": {"name": "web"}, "spec": {"defaultBackend": backend}}, SHOP)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", PODS_BEFORE), SHOP)
    await serves(fleet, PODS_BEFORE)
    await shared.has(fleet, "us", INGRESSES, SHOP, "web", bool)


async def serves(fleet: Fleet, pods: int) -> None:
    """Wait until this many pods run and both clusters have them as endpoints of both Services."""
    await fleet.running(SHOP, "web", pods, seconds=120.0)
    for name in SHARED:
        await shared.known_everywhere(fleet, SHOP, name, pods, CLUSTERS)


async def hook_said(fleet: Fleet, cluster: str) -> str:
    """Return the log of the upgrade hook's pod, which Helm deletes with its Job."""

    async def started() -> str:
        pods = await fleet.clients[cluster].list(PODS, NAMESPACE, labels="app.kubernetes.io/component=upgrade")
        new = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return next((pod["metadata"]["name"] for pod in new if pod["status"]["phase"] != "Pending"), "")

    pod = await until(started, 240, what="the hook runs")
    return await kubectl(fleet.sandbox[cluster], "-n", NAMESPACE, "logs", "-f", pod)


def triples(found: list[Raw]) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of each right that the rules grant."""
    return {
        (group, resource, verb)
        for rule in found
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def bindings(fleet: Fleet) -> dict[str, str]:
    """Return the resource versions of the target's bindings to source roles, by kind and name."""
    listed = [each for kind in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS) for each in await fleet.clients["us"].list(kind)]
    metadata = [(each["kind"], each["metadata"]) for each in listed if each["roleRef"]["name"].startswith(SOURCE_ROLE)]
    return {f"{kind} {each['name']}": each["resourceVersion"] for kind, each in metadata}


async def narrowed_last(fleet: Fleet) -> None:
    """Check that the role has only Admiralty's rules and was written last. Sampling rights could miss a short
    gap."""
    roles = {each["metadata"]["name"]: each for each in await fleet.clients["us"].list(CLUSTER_ROLES)}
    assert triples(roles[SOURCE_ROLE]["rules"]) == triples(rules(SOURCE))
    features = [roles[feature_role(SOURCE_ROLE, name)]["metadata"]["resourceVersion"] for name in FEATURES]
    before = [int(each) for each in (*features, *(await bindings(fleet)).values())]
    assert max(before) < int(roles[SOURCE_ROLE]["metadata"]["resourceVersion"])


def nothing_lost(shop: Shop) -> None:
    assert not shop.losses, "\n".join(shop.losses[:30])


async def test_sources_have_all_rights_from_one_role_before(shop: Shop) -> None:
    assert len(await bindings(shop.fleet)) == len(USERS)
    nothing_lost(shop)


@pytest.mark.parametrize("cluster", ["us", "cd"])
async def test_nothing_that_is_there_is_lost_at_any_moment(shop: Shop, cluster: str) -> None:
    fleet = shop.fleet
    seconds, said = await shop.upgrade(cluster)
    if cluster == "us":
        assert said.count(" made for ") == len(USERS) * len(KEPT), said
        await narrowed_last(fleet)
    await asyncio.sleep(LATER_SECONDS)
    print(f"{cluster} upgraded in {seconds:.0f} s; {shop}")
    nothing_lost(shop)
    assert shop.rights.asked > len(USERS) * len(shop.rights.grants), "not all rights have been asked for"
    await serves(fleet, PODS_BEFORE)


async def test_what_comes_later_works_as_before(shop: Shop) -> None:
    fleet = shop.fleet
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": PODS_BEFORE + 1}}, SHOP)
    await serves(fleet, PODS_BEFORE + 1)
    ports = [{"name": "http", "port": 81, "targetPort": 8080}]
    for name in SHARED:
        await fleet.source.patch(SERVICES, name, {"spec": {"ports": ports}}, SHOP)
        await shared.has(fleet, "us", SERVICES, SHOP, name, lambda copy: copy["spec"]["ports"][0]["port"] == 81)
    for client in fleet.clients.values():
        wanted = policies("anybody", NAMESPACE, "nobody")
        for kind in (POLICIES, POLICY_BINDINGS):
            there = {each["metadata"]["name"] for each in await client.list(kind)}
            assert there >= {each["metadata"]["name"] for each in wanted if each["kind"] == kind.name}
    nothing_lost(shop)


async def test_another_upgrade_finds_nothing_to_do(shop: Shop) -> None:
    before = await bindings(shop.fleet)
    assert len(before) == len(USERS) * (1 + len(KEPT))
    _, said = await shop.upgrade("us")
    assert said.splitlines() == [f"ClusterRole {SOURCE_ROLE} holds no rules of features: nothing to do"]
    assert await bindings(shop.fleet) == before
    nothing_lost(shop)


async def test_who_watched_would_have_told(shop: Shop) -> None:
    us = shop.fleet.clients["us"]
    delegate = (await us.list(PODS, SHOP))[0]["metadata"]["name"]
    lost: tuple[tuple[Kind, str, str], ...] = (
        (ROLE_BINDINGS, "of-anne-volumes", "anne may not .* persistentvolumeclaims"),
        (SERVICES, "api", "in us Service api is "),
        (PODS, delegate, f"in us Pod {delegate} is being deleted|in us EndpointSlice web-.* has lost"),
    )
    for kind, name, told in lost:
        await us.delete(kind, name, SHOP)
        for words in told.split("|"):
            await until(lambda words=words: any(re.search(words, loss) for loss in shop.losses), what=words)
