"""Promise 14: who creates a pod hears at once what it needs and a target does not have."""

import msgspec
import pytest

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, TARGETS
from agent.sandbox.errors import SandboxError
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition

CLAIM: Raw = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}


async def has(fleet: Fleet, namespace: str, target: str, **want: list[str]) -> None:
    """Wait until a Target says that its namespace has this, with the rights that a Source has there."""

    async def said() -> bool:
        found = await fleet.source.get(TARGETS, target, namespace)
        assert condition(found, "InventoryPublished").get("status") != "False", found["status"]
        return bool(found["status"].get("namespaces") == [{"name": namespace, **want}])

    await fleet.until(f"{target} says what it has", said, about=namespace)


async def test_a_service_account_and_a_claim_that_a_target_misses_are_warned_of(fleet: Fleet, namespace: str) -> None:
    for cluster in ("cd", "us"):
        await fleet.clients[cluster].create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, namespace)
    await has(fleet, namespace, "us", serviceAccounts=["builder", "cd"], persistentVolumeClaims=[])
    await has(fleet, namespace, "eu", serviceAccounts=["cd"], persistentVolumeClaims=[])

    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    path = fleet.sandbox.directory / "build.json"
    path.write_bytes(msgspec.json.encode(manifests.pod("build", serviceAccountName="builder", volumes=[volume])))
    dry_run = ("-n", namespace, "create", "--dry-run=server", "--warnings-as-errors", "-f", str(path))
    with pytest.raises(SandboxError) as warned:
        await fleet.kubectl("cd", *dry_run)
    of = f"does not exist in namespace {namespace} of"
    assert f"service account builder {of} Target eu: the pod cannot run there" in str(warned.value)
    assert f"persistent volume claim data {of} Target eu, Target us: the pod cannot run anywhere" in str(warned.value)

    for cluster in ("us", "eu"):
        await fleet.clients[cluster].create(PERSISTENT_VOLUME_CLAIMS, CLAIM, namespace)
    await fleet.clients["eu"].create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, namespace)
    for target in ("us", "eu"):
        await has(fleet, namespace, target, serviceAccounts=["builder", "cd"], persistentVolumeClaims=["data"])

    async def silent() -> bool:
        try:
            return "build" in await fleet.kubectl("cd", *dry_run)
        except SandboxError:
            return False

    await fleet.until("the webhook warns no more", silent, about=namespace)
