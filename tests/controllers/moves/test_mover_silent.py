"""A drain of pods with siblings in a silent target, on real API servers."""

from typing import Any

import pytest

from agent.api.conditions import condition_of
from agent.api.kinds import PODS, TARGETS
from agent.api.names import moves
from agent.clusters.target import Target
from agent.model.proxypod import proxy_pod
from agent.moves.mover.controller import Mover
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, elected
from tests.controllers.starting import running
from tests.controllers.target_links import target
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster

OWNER = {"apiVersion": "example.org/v1", "kind": "Cell", "name": "cell", "uid": "cell", "controller": True}
"""An owner whose pods are evicted. No controller in the test's clusters handles its kind."""


async def bound(pair: Pair, name: str, target: Target, ready: str) -> None:
    """Create a proxy pod in a target."""
    pod: dict[str, Any] = proxy_pod(elected(name, pair.namespace), [])
    pod["metadata"]["ownerReferences"] = [OWNER]
    pod["spec"]["nodeName"] = target.node_name
    await pair.here.create(PODS, pod)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    await pair.here.patch(PODS, name, {"status": status}, pair.namespace, sub="status")


async def says(pair: Pair, name: str, words: str) -> None:
    """Wait until the condition Placed of a pod contains these words."""

    async def probe() -> bool:
        found = condition_of(await pair.here.get(PODS, name, pair.namespace), moves.CONDITION) or {}
        return words in f"{found.get('reason')}: {found.get('message')}"

    await until(probe, what=f"{name} says {words}")


@pytest.mark.full("Waits until a target counts as silent; the rule itself is pure and has a test of its own.")
async def test_a_drain_does_not_wait_for_a_sibling_in_a_silent_target(pair: Pair) -> None:
    async with (
        Relay.started(pair.connection) as relay,
        running(pair.clusters[0], Mover, moves=True, endpoints_grace=1.0) as deps,
        connected(deps, pair.here, pair.namespace, eu=pair.connection, us=relay.connection) as targets,
    ):
        leaving = target("eu", pair.namespace)
        leaving["metadata"]["annotations"] = {"multicluster/retire": "true"}
        for each in (leaving, target("us", pair.namespace)):
            await pair.here.create(TARGETS, each)
        await bound(pair, "cell-1", targets["us"], "False")
        await bound(pair, "cell-0", targets["eu"], "True")
        await says(pair, "cell-0", "Held: the target that it is in is being emptied; pod cell-1 of its owner is not")
        relay.cut()
        await says(pair, "cell-0", "NoRoom: the target that it is in is being emptied;")
