"""A claim whose volume is in a target, as the agent leaves it in the source."""

import contextlib

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.placeholder_volume import volume_for
from tests.waiting import gone

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}


async def stand_in(admin: Client, namespace: str) -> str:
    """Make the claim `data` and what stands for its volume, of which the name is returned."""
    claim = await admin.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": SPEC}, namespace)
    status = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    volume = volume_for(claim, {"status": status}, ("", "us"))
    await admin.create(PERSISTENT_VOLUMES, volume)
    return str(volume["metadata"]["name"])


async def is_let_go(admin: Client, namespace: str, volume: str) -> None:
    """See that it is deleted, and gone with its claim at the latest."""
    with contextlib.suppress(NotFound):
        assert "deletionTimestamp" in (await admin.get(PERSISTENT_VOLUMES, volume))["metadata"]
    await admin.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
    await gone(lambda: admin.get(PERSISTENT_VOLUMES, volume))
