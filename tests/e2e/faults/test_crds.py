"""A target without the PodChaperon CRD reports that and affects no other target; newer CRDs work like the
agent's own."""

import contextlib
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from agent.api.kinds import CHAPERONS, CRDS, SECRETS, TARGETS, Kind
from agent.api.names import virtual_node
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox.objects import CRD_FOLDER, apply, is_served
from tests.e2e import manifests
from tests.e2e.faults.takes import takes_pods_again
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.waiting import gone, until

Raw = dict[str, Any]
FEW = 6
NEWER = "v1beta1"
pytestmark = [
    pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier."),
    pytest.mark.usefixtures("processes_only"),
]


def definition(kind: Kind) -> Raw:
    """Return the CRD of a kind, as installed with the agent."""
    found = (yaml.safe_load(path.read_text()) for path in CRD_FOLDER.glob("*.yaml"))
    return next(each for each in found if each["spec"]["names"]["plural"] == kind.plural)


@contextlib.asynccontextmanager
async def missing(client: Client, kind: Kind) -> AsyncIterator[None]:
    """Delete a CRD during the block."""
    crd = definition(kind)
    name = crd["metadata"]["name"]
    await client.delete(CRDS, name)
    try:
        await gone(lambda: client.get(CRDS, name), 60)

        async def unknown() -> bool:
            try:
                await client.list(kind)
            except NotFound:
                return True
            return False

        await until(unknown, what="the kind is not served")
        yield
    finally:
        await apply(client, CRDS, crd)
        await until(lambda: is_served(client))


async def says(fleet: Fleet, namespace: str, name: str, reason: str) -> None:
    """Wait until a Target is not ready for this reason."""

    async def told() -> bool:
        ready = condition(await fleet.source.get(TARGETS, name, namespace), "Ready")
        return (ready.get("status"), ready.get("reason")) == ("False", reason)

    await fleet.until(f"Target {name} says {reason}", told, about=namespace)


async def test_a_target_without_podchaperons_says_so_and_takes_pods_as_soon_as_it_has_them(
    fleet: Fleet, namespace: str
) -> None:
    # Deleting the CRD would delete PodChaperons of other tests.
    await fleet.all_gone()
    agents = [cluster.pid("agent") for cluster in fleet.sandbox.clusters]
    at_eu = manifests.deployment("web", FEW, nodeSelector={manifests.REGION: "eu"})
    await fleet.source.create(DEPLOYMENTS, at_eu, namespace)
    before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW)}
    kubeconfig = await fleet.kubeconfig(namespace, "us")
    async with missing(fleet.clients["us"], CHAPERONS):
        await says(fleet, namespace, "us", "NotInstalled")
        await apply(fleet.source, SECRETS, manifests.secret("late", namespace, kubeconfig))
        late = manifests.ours("Target", "late", namespace, {"kubeconfigSecret": {"name": "late"}})
        await apply(fleet.source, TARGETS, late)
        await says(fleet, namespace, "late", "NotInstalled")
        await fleet.source.create(DEPLOYMENTS, manifests.spread_out("new", FEW), namespace)
        pods = await fleet.running(namespace, "new", FEW)
        assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, "eu")}
        assert {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW)} == before
    for name in ("us", "late"):
        await fleet.ready(namespace, name)
    await takes_pods_again(fleet, namespace, virtual_node(namespace, "us"))
    await fleet.agree(namespace)
    assert [cluster.pid("agent") for cluster in fleet.sandbox.clusters] == agents
    fleet.census.check(namespace)


@pytest.mark.seldom
async def test_pods_of_a_target_whose_podchaperons_were_deleted_with_their_kind_run_once_again(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.all_gone()
    await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", FEW), namespace)
    await fleet.running(namespace, "web", FEW)
    assert "us" in {cluster for cluster, _ in (await fleet.delegates(namespace)).values()}
    async with missing(fleet.clients["us"], CHAPERONS):
        await says(fleet, namespace, "us", "NotInstalled")
    await fleet.ready(namespace, "us")

    async def all_run() -> bool:
        pods = await fleet.pods(namespace, "web")
        running = {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}
        return len(pods) == FEW and running == (await fleet.delegates(namespace)).keys()

    await fleet.until("every pod has a delegate that runs", all_run, about=namespace)
    await fleet.agree(namespace)
    fleet.census.check(namespace, may_end=True)


def newer(kind: Kind) -> Raw:
    """Return a CRD as a later release may define it, with another version and an additional field."""
    crd = copy.deepcopy(definition(kind))
    (version,) = crd["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"].setdefault("properties", {})["novel"] = {
        "type": "string"
    }
    crd["spec"]["versions"].append({**copy.deepcopy(version), "name": NEWER, "storage": False})
    return crd


@contextlib.asynccontextmanager
async def newer_kinds(fleet: Fleet) -> AsyncIterator[None]:
    """Install later CRD versions of Targets in the source, and of PodChaperons in us."""
    places = ((fleet.source, TARGETS), (fleet.clients["us"], CHAPERONS))
    try:
        for client, kind in places:
            await apply(client, CRDS, newer(kind))
            later = Kind(kind.group, NEWER, kind.plural, kind.name)

            async def served(client: Client = client, later: Kind = later) -> bool:
                await client.list(later)
                return True

            await until(served, what=f"{later} is served")
        yield
    finally:
        for client, kind in places:
            await apply(client, CRDS, definition(kind))


@pytest.mark.seldom
async def test_crds_of_a_later_release_are_used_as_ours_are_and_their_fields_stay(fleet: Fleet) -> None:
    async with newer_kinds(fleet):
        async with fleet.namespace() as namespace:
            await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", FEW), namespace)
            before = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", FEW)}
            later = Kind(TARGETS.group, NEWER, TARGETS.plural, TARGETS.name)
            await fleet.source.patch(later, "us", {"spec": {"novel": "kept"}}, namespace)
            for cluster in ("cd", "us"):
                await fleet.sandbox.restart(cluster, "agent")
            await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2 * FEW}}, namespace)
            after = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", 2 * FEW)}
            assert before < after
            await fleet.ready(namespace, "us")
            await takes_pods_again(fleet, namespace, virtual_node(namespace, "us"))
            await fleet.agree(namespace)
            assert (await fleet.source.get(TARGETS, "us", namespace))["spec"]["novel"] == "kept"
            fleet.census.check(namespace)
        # A garbage collector may forget objects being deleted if their API version is removed.
        await fleet.all_gone()
