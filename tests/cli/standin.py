"""A claim with a placeholder volume, as the agent creates it in the source for a volume in a target."""

import contextlib

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.placeholder_volume import volume_for
from tests.waiting import gone

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}


async def stand_in(admin: Client, namespace: str) -> str:
    """Create the claim `data` and its placeholder volume. Return the volume's name."""
    claim = await admin.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": SPEC}, namespace)
    status = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    volume = volume_for(claim, {"status": status}, ("", "us"))
    await admin.create(PERSISTENT_VOLUMES, volume)
    return str(volume["metadata"]["name"])


async def is_let_go(admin: Client, namespace: str, volume: str) -> None:
    """Check that the volume is being deleted, and wait for its end after deleting the claim."""
    with contextlib.suppress(NotFound):
        assert "deletionTimestamp" in (await admin.get(PERSISTENT_VOLUMES, volume))["metadata"]
    await admin.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
    await gone(lambda: admin.get(PERSISTENT_VOLUMES, volume))
