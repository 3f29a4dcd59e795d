"""Promise 14: when a user creates a pod, a warning names objects that it needs and a target does not have."""

import contextlib
from typing import Any

import msgspec
import pytest

from agent.api.kinds import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICE_ACCOUNTS, SOURCES, TARGETS, Kind
from agent.kube.errors import NotFound
from hack.lab.sandbox.errors import SandboxError
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition

PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
REQUIRE = {"multicluster/priority-class": "require"}
CLAIM: Raw = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}


async def has(fleet: Fleet, namespace: str, target: str, **want: list[str]) -> None:
    """Wait until a Target publishes this inventory of its namespace, read with the rights of a Source."""

    async def said() -> bool:
        found = await fleet.source.get(TARGETS, target, namespace)
        published = condition(found, "InventoryPublished").get("status") == "True"
        return published and found["status"].get("namespaces") == [{"name": namespace, **want}]

    await fleet.until(f"{target} says what it has", said, about=namespace)


async def test_a_service_account_that_a_target_misses_is_warned_of_and_a_claim_that_follows_is_not(
    fleet: Fleet, namespace: str
) -> None:
    for cluster in ("cd", "us"):
        await fleet.clients[cluster].create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, namespace)
    await has(fleet, namespace, "us", serviceAccounts=["builder", "cd"], persistentVolumeClaims=[])
    await has(fleet, namespace, "eu", serviceAccounts=["cd"], persistentVolumeClaims=[])

    dry_run = needing(fleet, namespace, serviceAccountName="builder")
    of = f"does not exist in namespace {namespace} of"

    async def warned() -> bool:
        try:
            await fleet.kubectl("cd", *dry_run)
        except SandboxError as error:
            told = f"service account builder {of} Target eu: the pod cannot run there" in str(error)
            return told and "persistent volume claim" not in str(error)
        return False

    await fleet.until("the webhook knows that claims follow", warned, about=namespace)
    await fleet.clients["eu"].create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, namespace)
    for target in ("us", "eu"):
        await has(fleet, namespace, target, serviceAccounts=["builder", "cd"], persistentVolumeClaims=[])

    async def silent() -> bool:
        try:
            return "build" in await fleet.kubectl("cd", *dry_run)
        except SandboxError:
            return False

    await fleet.until("the webhook warns no more", silent, about=namespace)


@pytest.mark.full("A variant of the warning about a missing account.")
async def test_a_claim_that_a_target_misses_is_warned_of_where_claims_do_not_follow(fleet: Fleet) -> None:
    async with fleet.namespace(()) as namespace:
        made = manifests.ours("Source", "cd", namespace, {"serviceAccountName": "cd", "allow": []})
        await fleet.clients["us"].create(SOURCES, made)
        await fleet.join(namespace, "us")
        await has(fleet, namespace, "us", serviceAccounts=["cd"], persistentVolumeClaims=[])
        said = f"persistent volume claim data does not exist in namespace {namespace} of Target us: the pod cannot run"
        dry_run = needing(fleet, namespace)

        async def warned() -> bool:
            try:
                await fleet.kubectl("cd", *dry_run)
            except SandboxError as error:
                return said in str(error)
            return False

        await fleet.until("the webhook warns", warned, about=namespace)
        await fleet.clients["us"].create(PERSISTENT_VOLUME_CLAIMS, CLAIM, namespace)

        async def silent() -> bool:
            try:
                return "build" in await fleet.kubectl("cd", *dry_run)
            except SandboxError:
                return False

        await fleet.until("the webhook warns no more", silent, about=namespace)


def needing(fleet: Fleet, namespace: str, **spec: Any) -> tuple[str, ...]:
    """Return kubectl arguments for a dry run that creates a pod with a claim and fails on any warning."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    path = fleet.sandbox.directory / f"{namespace}.json"
    path.write_bytes(msgspec.json.encode(manifests.pod("build", volumes=[volume], **spec)))
    return ("-n", namespace, "create", "--dry-run=server", "--warnings-as-errors", "-f", str(path))


@pytest.mark.full("A variant of the warning about a missing account.")
async def test_what_a_target_cannot_make_is_said_on_the_proxy_pod_until_it_can(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        account, urgent = {"metadata": {"name": "builder"}}, {"metadata": {"name": namespace}, "value": 1000}
        await fleet.source.create(SERVICE_ACCOUNTS, account, namespace)
        await fleet.source.create(PRIORITY_CLASSES, urgent)
        try:
            await fleet.source.create(PODS, manifests.pod("build", serviceAccountName="builder"), namespace)
            requires = manifests.pod("urgent", annotations=REQUIRE, priorityClassName=namespace)
            await fleet.source.create(PODS, requires, namespace)
            await fleet.source.create(PODS, manifests.pod("content", priorityClassName=namespace), namespace)
            await waits(fleet, namespace, "build", 'serviceaccount "builder" not found')
            await waits(fleet, namespace, "urgent", f"no PriorityClass with name {namespace} was found")
            await goes_without(fleet, namespace, "content", namespace)
            await fleet.clients["us"].create(SERVICE_ACCOUNTS, account, namespace)
            await fleet.clients["us"].create(PRIORITY_CLASSES, urgent)
            for name in ("build", "urgent"):
                await fleet.running(namespace, name, 1)
            await fleet.agree(namespace)
        finally:
            for cluster in ("cd", "us"):
                with contextlib.suppress(NotFound):
                    await fleet.clients[cluster].delete(PRIORITY_CLASSES, namespace)


async def goes_without(fleet: Fleet, namespace: str, name: str, lacks: str) -> None:
    """Check that a pod runs without its PriorityClass, and that a warning event names the class and the target."""
    (proxy,) = await fleet.running(namespace, name, 1)
    assert proxy["spec"]["priorityClassName"] == lacks
    ((_, delegate),) = (
        each for uid, each in (await fleet.delegates(namespace)).items() if uid == proxy["metadata"]["uid"]
    )
    assert "priorityClassName" not in delegate["spec"]

    async def told() -> bool:
        events = await fleet.source.list(EVENTS, namespace, fields=f"involvedObject.name={name}")
        of = [each["message"] for each in events if each["reason"] == "PriorityClassMissing"]
        return any("us" in message.partition("]")[0] and f"no PriorityClass {lacks} " in message for message in of)

    await fleet.until(f"pod {name} tells of its class", told, about=namespace)


async def waits(fleet: Fleet, namespace: str, name: str, why: str) -> None:
    """Wait until the PodScheduled condition of a proxy pod contains `why`."""

    async def said() -> bool:
        scheduled = condition(await fleet.source.get(PODS, name, namespace), "PodScheduled")
        return scheduled.get("status") == "False" and why in scheduled["message"]

    await fleet.until(f"pod {name} says {why}", said, about=namespace)
