"""If a cluster is restored from a backup in a running fleet, only objects newer than the backup are lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import LEASES, NAMESPACES, PODS, TARGETS
from agent.api.names import DELETE_ORPHANS, LABEL_PARENT_UID, LEASE_SOURCES, SHORT_PREFIX
from agent.model import heartbeats
from agent.model.heartbeats import Sign
from hack.lab.sandbox.backup import back_up, restore
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

BEFORE, AFTER = 4, 16
LEASE_SECONDS = 5.0
STILL_SECONDS = 10.0

pytestmark = [
    pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier."),
    pytest.mark.usefixtures("processes_only"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace whose only target is us."""
    async with fleet.namespace(("us",)) as name:
        yield name


def agents(fleet: Fleet) -> list[int | None]:
    """Return the process ids of all agents."""
    return [cluster.pid("agent") for cluster in fleet.sandbox.clusters]


async def annotate(fleet: Fleet, namespace: str, name: str) -> None:
    """Annotate a delegate in its target, and wait until the change is copied to the proxy pod."""
    metadata = {"annotations": {"seen": "after"}}
    delegates = await fleet.delegates(namespace)
    proxy = next(pod for pod in await fleet.pods(namespace, name) if pod["metadata"]["uid"] in delegates)
    cluster, delegate = delegates[proxy["metadata"]["uid"]]
    await fleet.clients[cluster].patch(PODS, delegate["metadata"]["name"], {"metadata": metadata}, namespace)

    async def home() -> bool:
        found = await fleet.source.get(PODS, proxy["metadata"]["name"], namespace)
        return found["metadata"]["annotations"].get("seen") == "after"

    await fleet.until("the annotation is home", home, about=namespace)


@pytest.mark.seldom
async def test_delegates_of_a_target_that_was_restored_are_seen_again_without_a_restart(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", BEFORE), namespace)
    pods = await fleet.running(namespace, "web", BEFORE)
    backup = await back_up(fleet.sandbox, "us")
    # Create objects after the backup, and delete one that the backup still contains.
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("later", AFTER), namespace)
    await fleet.running(namespace, "later", AFTER)
    await fleet.source.delete(PODS, pods[0]["metadata"]["name"], namespace)
    pods = await fleet.running(namespace, "web", BEFORE)
    running = agents(fleet)
    await restore(fleet.sandbox, "us", backup)
    await fleet.running(namespace, "later", AFTER, seconds=120)
    await fleet.running(namespace, "web", BEFORE, seconds=120)
    await fleet.agree(namespace, seconds=120)
    for name in ("web", "later"):
        await annotate(fleet, namespace, name)
    assert agents(fleet) == running


async def test_a_source_gives_signs_of_life_with_the_rights_that_it_has(fleet: Fleet, namespace: str) -> None:
    uid = (await fleet.source.get(NAMESPACES, "kube-system"))["metadata"]["uid"]

    async def sign() -> Sign | None:
        lease = await fleet.clients["us"].get(LEASES, LEASE_SOURCES, fleet.home)
        return heartbeats.read(lease["metadata"].get("annotations")).get(uid)

    found = await fleet.until("there is a sign", sign, about=namespace)
    assert found is not None
    assert found.name == "cd"
    assert found.account.startswith("system:serviceaccount:"), "the key is its own"


@pytest.mark.seldom
async def test_a_source_that_was_restored_deletes_nothing_that_it_has_forgotten(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", BEFORE), namespace)
    known = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", BEFORE)}
    backup = await back_up(fleet.sandbox, "cd")
    await asyncio.sleep(2 * LEASE_SECONDS)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("later", AFTER), namespace)
    forgotten = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "later", AFTER)}
    await restore(fleet.sandbox, "cd", backup)

    async def held() -> str:
        target = await fleet.source.get(TARGETS, "us", namespace)
        found = condition(target, "OrphansDeleted")
        return str(found["message"]) if found.get("status") == "False" else ""

    message = await fleet.until("orphans are held", held, about=namespace)
    assert message.startswith(f"{AFTER} of ")
    assert await living(fleet, namespace) == known | forgotten
    # A restarted agent, which has not observed the restoration, deletes none either.
    await fleet.sandbox.restart("cd", "agent")
    await annotate(fleet, namespace, "web")
    await asyncio.sleep(STILL_SECONDS)
    assert await living(fleet, namespace) == known | forgotten
    fleet.census.check(namespace, at_most=BEFORE + AFTER)
    token = (await fleet.until("orphans are held", held, about=namespace)).rpartition("=")[2]
    annotations = {SHORT_PREFIX + DELETE_ORPHANS: token}
    await fleet.source.patch(TARGETS, "us", {"metadata": {"annotations": annotations}}, namespace)
    await fleet.until("what was held is gone", lambda: only(fleet, namespace, known), about=namespace)
    await fleet.agree(namespace)


async def living(fleet: Fleet, namespace: str) -> set[str]:
    """Return the UIDs of proxy pods whose delegates run in us and are not terminating."""
    pods = await fleet.clients["us"].list(PODS, namespace, labels=LABEL_PARENT_UID)
    return {
        pod["metadata"]["labels"][LABEL_PARENT_UID]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Running"
    }


async def only(fleet: Fleet, namespace: str, uids: set[str]) -> bool:
    """Check that exactly these proxy pods have running delegates."""
    return await living(fleet, namespace) == uids
