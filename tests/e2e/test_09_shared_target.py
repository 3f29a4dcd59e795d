"""Promise 9: two sources with the same cluster name that share a target do not touch each other's objects."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api.kinds import NAMESPACES, PODS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS

SHARED = "shared"


@pytest_asyncio.fixture(loop_scope="session")
async def joined(fleet: Fleet) -> AsyncIterator[None]:
    """Sources a and b, both with cluster name `same`, and their target t, in the same namespace."""
    async with fleet.namespace(("t",), source="a", name=SHARED):
        await fleet.clients["b"].patch(
            NAMESPACES, SHARED, {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}}
        )
        await fleet.join(SHARED, "t", source="b")
        yield
        await fleet.leave(SHARED, "b")
    # The next file stops the agent of b.
    await fleet.all_gone()


@pytest.mark.usefixtures("joined")
async def test_what_one_source_deletes_leaves_the_other_alone(fleet: Fleet) -> None:
    for source in ("a", "b"):
        client = fleet.clients[source]
        await client.create(STATEFULSETS, manifests.stateful_set("db", 3), SHARED)
        await client.create(DEPLOYMENTS, manifests.deployment("web", 5), SHARED)
        await client.create(PODS, manifests.pod("lone"), SHARED)
    for source in ("a", "b"):
        for app, count in (("db", 3), ("web", 5), ("lone", 1)):
            await fleet.running(SHARED, app, count, source=source)
    delegates = await fleet.delegates(SHARED)
    assert len(delegates) == 18
    of_b = {pod["metadata"]["uid"] for pod in await fleet.pods(SHARED, source="b")}
    kept = {uid: pod["metadata"]["uid"] for uid, (_, pod) in delegates.items() if uid in of_b}
    assert len(kept) == 9

    a = fleet.clients["a"]
    await a.delete(STATEFULSETS, "db", SHARED)
    await a.delete(DEPLOYMENTS, "web", SHARED)
    await a.delete(PODS, "lone", SHARED)

    async def only_of_b() -> bool:
        left = await fleet.delegates(SHARED)
        return not await a.list(PODS, SHARED) and left.keys() == kept.keys()

    await fleet.until("a's delegates are gone", only_of_b, about=SHARED)
    await fleet.sandbox.restart("a", "agent")
    # A running new pod of a proves that its restarted agent has listed all objects and reconciled them.
    await a.create(PODS, manifests.pod("lone"), SHARED)
    await fleet.running(SHARED, "lone", 1, source="a")
    await a.delete(PODS, "lone", SHARED)
    await fleet.until("a's new delegate is gone", only_of_b, about=SHARED)
    after = {uid: pod["metadata"]["uid"] for uid, (_, pod) in (await fleet.delegates(SHARED)).items()}
    assert after == kept
    assert {pod["metadata"]["uid"] for pod in await fleet.pods(SHARED, source="b")} == of_b
    ended = fleet.census.of(SHARED, fleet.census.gone.values())
    assert not of_b & {delegate.parent_uid for delegate in ended}
    assert len(ended) == 10
