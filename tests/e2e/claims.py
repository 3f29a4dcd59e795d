"""PersistentVolumeClaims of users, and volumes for them in targets."""

import contextlib
from collections.abc import AsyncIterator

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Kind
from tests.e2e.fleet import Fleet

STORAGE = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
VOLUMES_EACH = 5


@contextlib.asynccontextmanager
async def volumes(fleet: Fleet, name: str) -> AsyncIterator[None]:
    """Create volumes in both targets that bind on first consumer. The source gets no volumes."""
    for cluster in ("us", "eu"):
        client = fleet.clients[cluster]
        mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        await client.create(STORAGE, {"metadata": {"name": name}, **mode})
        for number in range(VOLUMES_EACH):
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": name,
                "hostPath": {"path": "/none"},
            }
            await client.create(PERSISTENT_VOLUMES, {"metadata": {"name": f"{name}-{number}"}, "spec": spec})
    try:
        yield
    finally:
        for cluster in ("us", "eu"):
            await fleet.clients[cluster].delete(STORAGE, name)
            for number in range(VOLUMES_EACH):
                await fleet.clients[cluster].delete(PERSISTENT_VOLUMES, f"{name}-{number}")


async def bound(fleet: Fleet, namespace: str, name: str) -> None:
    """Wait until a claim is bound in the source."""

    async def is_bound() -> bool:
        found = await fleet.source.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        return bool(found["status"]["phase"] == "Bound")

    await fleet.until(f"claim {name} is bound in the source", is_bound, about=namespace)
