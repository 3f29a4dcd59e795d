"""What has the mover look again at pods that wait for their owner."""

from typing import Any

import pytest

from agent.api.conditions import condition_of
from agent.api.kinds import DEPLOYMENTS, PODS, REPLICA_SETS, TARGETS, Kind
from agent.api.names import moves
from agent.controllers.mover.controller import Mover
from agent.model.proxypod import proxy_pod
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, elected
from tests.controllers.rooms import running
from tests.controllers.targets import target
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

Raw = dict[str, Any]

LABELS = {"app": "web"}
HASH = {"pod-template-hash": "1"}


def controlled_by(kind: Kind, owner: Raw) -> list[Raw]:
    return [
        {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]


async def paused_deployment(pair: Pair) -> Raw:
    """Create a paused Deployment with its ReplicaSet. Return the ReplicaSet."""
    containers = {"containers": [{"name": "main", "image": "busybox"}]}
    template = {"metadata": {"labels": LABELS}, "spec": containers}
    spec = {"replicas": 1, "paused": True, "selector": {"matchLabels": LABELS}, "template": template}
    made = await pair.create(DEPLOYMENTS, "web", spec=spec)
    labels = {**LABELS, **HASH}
    metadata = {"labels": labels, "ownerReferences": controlled_by(DEPLOYMENTS, made)}
    template = {"metadata": {"labels": labels}, "spec": containers}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return await pair.create(REPLICA_SETS, "web-1", metadata=metadata, spec=spec)


async def test_a_rollout_that_is_resumed_wakes_the_pods_that_it_held(pair: Pair) -> None:
    async with (
        running(pair.clusters[0], Mover, moves=True) as deps,
        connected(deps, pair.here, pair.namespace, eu=pair.connection) as targets,
    ):
        retiring = target("eu", pair.namespace)
        retiring["metadata"]["annotations"] = {"multicluster/retire": "true"}
        await pair.here.create(TARGETS, retiring)
        replica_set = await paused_deployment(pair)
        pod = proxy_pod(elected("web-1-a", pair.namespace), [targets["eu"].finalizer])
        pod["metadata"] |= {"labels": {**LABELS, **HASH}, "ownerReferences": controlled_by(REPLICA_SETS, replica_set)}
        await pair.here.create(PODS, pod)
        there = {"metadata": {"name": "web-1-a"}, "target": {"kind": "Node", "name": targets["eu"].node_name}}
        await pair.here.create(PODS, there, pair.namespace, sub="binding")

        async def said() -> str:
            found = await pair.here.get(PODS, "web-1-a", pair.namespace)
            return str((condition_of(found, moves.CONDITION) or {}).get("message", ""))

        async def is_held() -> bool:
            return "is paused" in await said()

        await until(is_held, what="the pod waits for its Deployment")
        await pair.here.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}}, pair.namespace)

        async def goes_on() -> bool:
            return "is paused" not in await said()

        await until(goes_on, 10, what="the mover has looked again")
