"""Informers of a real API server whose etcd is restored from a backup."""

import pytest

from agent.api.kinds import CHAPERONS, CONFIGMAPS, EVENTS
from agent.kube.client import Client
from agent.kube.informer import Informer
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.backup import back_up, restore
from tests.kube.test_informer import config_map, event
from tests.kube.watching import Follower, listed, running, versions
from tests.waiting import until

pytestmark = pytest.mark.cluster

WRITES = 300
"""More writes than a restored API server makes before the first request, so that its versions stay behind."""


async def advance(client: Client, namespace: str) -> None:
    """Advance the resource version of a cluster by writes."""
    for number in range(WRITES):
        await client.patch_raw(CONFIGMAPS, "changes", {"data": {"a": str(number)}}, namespace)


async def test_what_a_restored_api_server_has_is_known_within_seconds_and_without_a_restart(
    sandbox: Sandbox, cluster: Cluster, client: Client, namespace: str
) -> None:
    for name in ("stays", "changes", "is-deleted"):
        await client.create(CONFIGMAPS, config_map(name, a="before"), namespace)
    await client.create(EVENTS, event("stays", namespace))
    # No object of this kind exists, so no event ever reports the server's version.
    empty = Informer(client, CHAPERONS, namespace)
    maps, events = Informer(client, CONFIGMAPS, namespace), Informer(client, EVENTS, namespace)
    followers = [Follower(each, rolls_back=True) for each in (maps, events, empty)]
    async with running(maps, followers[0]), running(events, followers[1]), running(empty, followers[2]):
        backup = await back_up(sandbox, cluster.name)
        await client.delete(CONFIGMAPS, "is-deleted", namespace)
        await client.create(CONFIGMAPS, config_map("is-forgotten"), namespace)
        await client.create(EVENTS, event("is-forgotten", namespace))
        await advance(client, namespace)
        await until(lambda: versions(maps).keys() >= {(namespace, "is-forgotten")})
        latest = maps.store.get((namespace, "changes"))
        assert latest is not None
        await restore(sandbox, cluster.name, backup)
        await until(lambda: {"stays", "changes", "is-deleted"} <= {obj.name for obj in maps.store})
        await until(lambda: not {"is-forgotten"} & {obj.name for obj in (*maps.store, *events.store)})
        current = await listed(client, CONFIGMAPS, namespace)
        assert versions(maps) == followers[0].known == current
        changes = maps.store.get((namespace, "changes"))
        assert changes is not None
        assert changes.uid == latest.uid
        assert int(changes.version) < int(latest.version)
        assert maps.rollbacks == 1
        # Watches and answers to writes deliver later changes again.
        absorbed = await client.create_raw(CONFIGMAPS, config_map("absorbed"), namespace)
        assert maps.absorb(absorbed).key in versions(maps)
        await client.patch(CONFIGMAPS, "changes", {"data": {"a": "after"}}, namespace)
        await until(lambda: b'"after"' in maps.store.get((namespace, "changes")).raw)  # type: ignore[union-attr]
        await client.create(EVENTS, event("later", namespace))
        await until(lambda: events.store.get((namespace, "later")))
        head = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}
        await client.create(CHAPERONS, {**head, "metadata": {"name": "later"}, "spec": {"containers": []}}, namespace)
        await until(lambda: empty.store.get((namespace, "later")))


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_an_api_server_that_merely_restarts_never_shows_an_earlier_version(
    sandbox: Sandbox, cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(CONFIGMAPS, config_map("changes"), namespace)
    informer = Informer(client, CONFIGMAPS, namespace)
    async with running(informer) as follower:
        for number in range(3):
            await sandbox.kill(cluster.name, "kube-apiserver")
            await sandbox.start(cluster.name, "kube-apiserver")
            await client.patch(CONFIGMAPS, "changes", {"data": {"a": str(number)}}, namespace)
            want = f'"a":"{number}"'.encode()
            await until(lambda want=want: want in informer.store.get((namespace, "changes")).raw)  # type: ignore[union-attr]
        assert versions(informer) == follower.known
        assert informer.rollbacks == 0
