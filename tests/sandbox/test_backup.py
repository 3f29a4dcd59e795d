"""Backups of a cluster's etcd, on a real one."""

import secrets

import pytest

from agent.api.kinds import CONFIGMAPS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.backup import back_up, restore

pytestmark = pytest.mark.cluster


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_restored_cluster_has_what_it_had_and_nothing_else(
    sandbox: Sandbox, cluster: Cluster, client: Client, namespace: str
) -> None:
    name = f"kept-{secrets.token_hex(3)}"
    kept = await client.create(CONFIGMAPS, {"metadata": {"name": name}, "data": {"a": "1"}}, namespace)
    backup = await back_up(sandbox, cluster.name)
    changed = await client.patch(CONFIGMAPS, name, {"data": {"a": "2"}}, namespace)
    await client.create(CONFIGMAPS, {"metadata": {"name": "later"}}, namespace)
    await restore(sandbox, cluster.name, backup)
    found = await client.get(CONFIGMAPS, name, namespace)
    assert found["metadata"] == kept["metadata"]
    assert found["data"] == {"a": "1"}
    with pytest.raises(NotFound):
        await client.get(CONFIGMAPS, "later", namespace)
    # The restored cluster continues from its resource versions.
    assert int(await client.version(CONFIGMAPS)) >= int(kept["metadata"]["resourceVersion"])
    assert int(changed["metadata"]["resourceVersion"]) > int(kept["metadata"]["resourceVersion"])
    assert {line.process for line in sandbox.status() if line.state == "dead"} == set()
