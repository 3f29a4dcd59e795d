"""Loss of the source's own link between real API servers: decisions of Placements stay."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import MANAGED_CLUSTER_SET_BINDINGS, PLACEMENT_DECISIONS, PLACEMENTS, TARGETS
from agent.api.names.ocm import DEFAULT_SET, decision_name
from agent.placement.managed_clusters import ClusterSetController
from agent.placement.placements.controller import PlacementController
from tests.controllers.pair import Pair
from tests.controllers.placement.test_managedclusters import (
    CLOSED,
    CONTROLLERS,
    UNREACHABLE,
    _placements,
    available,
    cluster,
    join,
)
from tests.controllers.starting import running
from tests.controllers.target_links import kubeconfig, rewrite
from tests.ocm import object_of
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

__all__ = ["_placements"]


@pytest.fixture
async def joined(pair: Pair) -> AsyncIterator[dict[str, int]]:
    """Create ManagedClusters for two clusters, yield the number of each, and run a Placement that selects one."""
    found = {await join(pair, name, to): to for name, to in (("eu", 1), ("us", 0))}
    binding = object_of(MANAGED_CLUSTER_SET_BINDINGS, DEFAULT_SET, pair.namespace, spec={"clusterSet": DEFAULT_SET})
    await pair.here.create(MANAGED_CLUSTER_SET_BINDINGS, binding)
    async with running(pair.clusters[0], *CONTROLLERS, ClusterSetController, PlacementController):
        for name in found:
            await cluster(pair, name, available("True"))
        await pair.here.create(PLACEMENTS, object_of(PLACEMENTS, "web", pair.namespace, spec={"numberOfClusters": 1}))
        yield found
        await pair.here.delete(PLACEMENTS, "web", pair.namespace)


async def decision(pair: Pair) -> Raw:
    """Return the PlacementDecision, once it names a cluster."""

    async def probe() -> Raw | None:
        found = await pair.here.get(PLACEMENT_DECISIONS, decision_name("web", 1), pair.namespace)
        return found if names_in(found) else None

    return await until(probe) or {}


def names_in(found: Raw) -> list[str]:
    return [each["clusterName"] for each in (found.get("status") or {}).get("decisions") or ()]


def unreachable(effect: str) -> Any:
    return lambda found: (
        (UNREACHABLE, effect) in {(taint["key"], taint["effect"]) for taint in found["spec"].get("taints", ())}
    )


@pytest.mark.full("Cuts and mends links of two targets, one after the other; pure tests keep the rule.")
async def test_a_loss_of_the_own_link_changes_no_decision_until_a_person_does_not_want_to_wait(
    pair: Pair, joined: dict[str, int]
) -> None:
    before = await decision(pair)
    (decided,) = names_in(before)
    (other,) = set(joined) - {decided}
    for name, number in joined.items():
        await rewrite(pair.here, pair.namespace, name, kubeconfig(pair.clusters[number], server=CLOSED))
    for name in joined:
        await cluster(pair, name, lambda found: available("Unknown")(found) and unreachable("NoSelectIfNew")(found))
    await rewrite(pair.here, pair.namespace, other, kubeconfig(pair.clusters[joined[other]]))
    await cluster(pair, other, available("True"))
    # A decision for a new Placement proves that all earlier changes were evaluated.
    one = {"numberOfClusters": 1}
    await pair.here.create(PLACEMENTS, object_of(PLACEMENTS, "new", pair.namespace, spec=one))

    async def has_decided() -> bool:
        found = await pair.here.get(PLACEMENT_DECISIONS, decision_name("new", 1), pair.namespace)
        return names_in(found) == [other]

    await until(has_decided)
    after = await decision(pair)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"], "it was never changed"

    now = {"metadata": {"annotations": {"multicluster/failover-now": "true"}}}
    await pair.here.patch(TARGETS, decided, now, pair.namespace)
    await cluster(pair, decided, unreachable("NoSelect"))

    async def has_moved() -> bool:
        return names_in(await decision(pair)) == [other]

    await until(has_moved)
    await pair.here.delete(PLACEMENTS, "new", pair.namespace)
