"""Events on which the mover re-checks pods that wait for their owner or for their data."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, PODS, REPLICA_SETS, TARGETS, Kind
from agent.api.names import moves
from agent.model.proxypod import proxy_pod
from agent.moves.mover.controller import Mover
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, elected
from tests.controllers.starting import running
from tests.controllers.target_links import target
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


async def deployment(pair: Pair, made: Raw) -> None:
    """Create a paused Deployment, a pod, and a ReplicaSet, whose controller adopts the pod and creates no other."""
    containers = {"containers": [{"name": "main", "image": "busybox"}]}
    template = {"metadata": {"labels": LABELS}, "spec": containers}
    spec = {"replicas": 1, "paused": True, "selector": {"matchLabels": LABELS}, "template": template}
    owner = await pair.create(DEPLOYMENTS, "web", spec=spec)
    await pair.here.create(PODS, made)
    labels = {**LABELS, **HASH}
    metadata = {"labels": labels, "ownerReferences": controlled_by(DEPLOYMENTS, owner)}
    template = {"metadata": {"labels": labels}, "spec": containers}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await asyncio.sleep(1.0)  # The controller has seen the pod by then.
    await pair.create(REPLICA_SETS, "web-1", metadata=metadata, spec=spec)


@contextlib.asynccontextmanager
async def retiring(pair: Pair, **spec: Any) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Run a pod of a paused Deployment in a retiring target. Yield a function that returns the pod's message."""
    async with (
        running(pair.clusters[0], Mover, moves=True) as deps,
        connected(deps, pair.here, pair.namespace, eu=pair.connection) as targets,
    ):
        leaving = target("eu", pair.namespace)
        leaving["metadata"]["annotations"] = {"multicluster/retire": "true"}
        await pair.here.create(TARGETS, leaving)
        pod = proxy_pod(elected("web-1-a", pair.namespace, **spec), [targets["eu"].finalizer])
        pod["metadata"]["labels"] = {**LABELS, **HASH}
        pod["spec"]["nodeName"] = targets["eu"].node_name
        await deployment(pair, pod)

        async def said() -> str:
            found = await pair.here.get(PODS, "web-1-a", pair.namespace)
            if "deletionTimestamp" in found["metadata"]:
                return "it is replaced"
            return str((condition_of(found, moves.CONDITION) or {}).get("message", ""))

        yield said


@pytest.mark.full("Real controllers of workloads interfere on a busy machine; the mover's models cover it.")
async def test_a_rollout_that_is_resumed_wakes_the_pods_that_it_held(pair: Pair) -> None:
    async with retiring(pair) as said:
        await until(lambda: contains(said, "is paused"), what="the pod waits for its Deployment")
        await pair.here.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}}, pair.namespace)
        await until(lambda: lacks(said, "is paused"), 30, what="the mover has looked again")


@pytest.mark.full("Real controllers of workloads interfere on a busy machine; the mover's models cover it.")
async def test_a_claim_that_is_freed_wakes_the_pods_that_it_held(pair: Pair) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
    metadata = {"annotations": {names.ANNOTATION_VOLUME_IN: "eu"}}
    await pair.create(PERSISTENT_VOLUME_CLAIMS, "data", metadata=metadata, spec=spec)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    async with retiring(pair, volumes=volumes) as said:
        await until(lambda: contains(said, "its claim data"), what="the pod waits for its data")
        freed = {"metadata": {"annotations": {names.ANNOTATION_VOLUME_IN: None}}}
        await pair.here.patch(PERSISTENT_VOLUME_CLAIMS, "data", freed, pair.namespace)
        await until(lambda: lacks(said, "its claim data"), 30, what="the mover has looked again")


async def contains(said: Callable[[], Awaitable[str]], words: str) -> bool:
    return words in await said()


async def lacks(said: Callable[[], Awaitable[str]], words: str) -> bool:
    return words not in await said()
