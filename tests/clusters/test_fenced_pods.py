"""Targets that need fence renewals, from events of pods and chaperons."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.api.names import fencing
from agent.clusters.target import Target
from agent.kube.store import Key
from agent.moves.fence.pods import FencedPodController
from tests.controllers.offline import Offline, offline

DB: Key = ("shop", "db")


@contextlib.asynccontextmanager
async def joined() -> AsyncIterator[tuple[Offline, Target]]:
    """Yield a cluster without objects, and its only target, which is the cluster itself."""
    async with offline(FencedPodController) as (cluster, _):
        yield cluster, await cluster.deps.targets.connect(("shop", "eu"), None, "first")
        await cluster.deps.targets.close()


def put_pod(cluster: Offline, target: Target, **annotations: str) -> None:
    metadata = {"uid": "P", "annotations": {**annotations}}
    spec = {"nodeName": target.node_name}
    cluster.put(cluster.deps.proxies.informer, PODS, "db", "shop", metadata=metadata, spec=spec)


def put_chaperon(cluster: Offline, target: Target, parent_uid: str = "P", **annotations: str) -> None:
    metadata: dict[str, Any] = {
        "labels": {names.LABEL_PARENT_UID: parent_uid},
        "annotations": {names.ANNOTATION_PARENT_NAME: "db", **annotations},
    }
    cluster.put(target.chaperons, CHAPERONS, f"db-{parent_uid}", "shop", metadata=metadata)


MARK = {fencing.ANNOTATION_LEASE: "fence-x"}


async def test_a_place_needs_renewals_while_a_chaperon_bears_the_mark_whatever_comes_first() -> None:
    async with joined() as (cluster, target):
        fenced, told = cluster.deps.fenced_pods, []
        fenced.on_change(lambda pod, place: told.append((pod, place)))
        place = (target.node_name, "shop")
        put_chaperon(cluster, target, **MARK)
        put_pod(cluster, target)
        assert fenced.needs_renewals(place), "the pod came last"
        assert told == [(DB, place)]
        pod = cluster.deps.proxies.informer.store.get(DB)
        assert pod is not None
        assert not fenced.asks(pod)
        put_chaperon(cluster, target)
        assert not fenced.needs_renewals(place)
        put_chaperon(cluster, target, **MARK)
        assert fenced.needs_renewals(place), "the chaperon came last"
        assert told == [(DB, place)] * 3


async def test_marks_of_chaperons_of_an_earlier_pod_of_that_name_do_not_count() -> None:
    async with joined() as (cluster, target):
        put_pod(cluster, target)
        put_chaperon(cluster, target, "earlier", **MARK)
        assert not cluster.deps.fenced_pods.needs_renewals((target.node_name, "shop"))
