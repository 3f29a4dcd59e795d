"""What of ours each target holds, told by events as the watches bring them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, PODS
from agent.base.clock import SystemClock
from agent.clusters.chaperons import Chaperons
from agent.clusters.cluster import Cluster
from agent.clusters.registry import Targets
from agent.clusters.target import Probing, Target
from agent.kube.config import Connection
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.proxypod import proxy_pod
from agent.runtime.supervisor import Supervisor
from agent.scheduler.gather import Demands
from agent.scheduler.world import FLIGHT_SECONDS, SETTLED_SECONDS, World
from tests.waiting import until

NOWHERE = Connection("http://127.0.0.1:1")


class Scene:
    """A world whose watches say what the test says."""

    def __init__(self, proxies: Informer, targets: Targets, eu: Target, us: Target) -> None:
        self.time = 0.0
        self.changes = 0
        self.eu, self.us = eu.node_name, us.node_name
        self.target = eu
        self.proxies = proxies
        self.world = World(
            proxies, targets, Chaperons(targets, "here"), Demands(), self._changed, now=lambda: self.time
        )
        self._version = 0

    def _changed(self) -> None:
        self.changes += 1

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def pod(self, claim: str = "", node: str = "", uid: str = "u1", phase: str = "Pending", **metadata: Any) -> Object:
        """The watch tells of the pod."""
        source = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": [{"name": "m"}]}}
        proxy = proxy_pod(source, [])
        proxy["metadata"] |= {"uid": uid, "resourceVersion": self._next(), **metadata}
        proxy["metadata"]["annotations"][names.ANNOTATION_CLAIM] = claim
        proxy["spec"]["nodeName"] = node
        proxy["status"] = {"phase": phase}
        return self.proxies.absorb(msgspec.json.encode(proxy))

    def delegate(self, phase: str, uid: str = "u1") -> None:
        """The watch tells what the pod's chaperon in eu says."""
        metadata = {
            "name": "web-1",
            "namespace": "default",
            "resourceVersion": self._next(),
            "labels": {names.LABEL_PARENT_UID: uid},
            "annotations": {names.ANNOTATION_PARENT_NAME: "web"},
        }
        self.target.chaperons.absorb(msgspec.json.encode({"metadata": metadata, "status": {"phase": phase}}))

    def summary(self) -> None:
        """The target eu tells anew what it has."""
        metadata = {"name": names.SUMMARY_NAME, "resourceVersion": self._next()}
        self.target.summaries.absorb(msgspec.json.encode({"metadata": metadata}))

    def found(self, node: str) -> tuple[int, int, int]:
        """Pods, pods in flight and pods without delegate that a target holds."""
        self.world.refresh()
        holding = self.world.holdings.of(node)
        assert len(holding.flying) <= self.world.in_flight
        return len(holding.pods), len(holding.flying), len(holding.unborn)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Two targets that nobody answers for, and the proxies' informer."""
    local = Cluster(NOWHERE, "local")
    async with Supervisor("test") as supervisor:
        targets = Targets(local, SystemClock(), Probing(), supervisor)
        eu, us = [await targets.connect(("default", name), NOWHERE, "x") for name in ("eu", "us")]
        proxies = Informer(local.client, PODS)
        for informer, kind in ((proxies, PODS), (eu.chaperons, CHAPERONS), (eu.summaries, CLUSTER_SUMMARIES)):
            assert informer.kind == kind
            informer.synced.set()
        yield Scene(proxies, targets, eu, us)
        await targets.close()
    await local.close()


async def test_a_pod_counts_where_it_is_claimed_then_bound_until_it_ends(scene: Scene) -> None:
    scene.pod()
    assert scene.found(scene.eu) == (0, 0, 0)
    scene.pod(claim=scene.eu)
    assert scene.found(scene.eu) == (1, 1, 1)
    scene.pod(claim=scene.eu, node=scene.eu)
    assert scene.found(scene.eu) == (1, 1, 0)
    scene.pod(claim=scene.eu, node=scene.eu, phase="Succeeded")
    assert scene.found(scene.eu) == (0, 0, 0)


async def test_a_pod_that_moves_on_is_in_flight_anew(scene: Scene) -> None:
    scene.pod(claim=scene.eu)
    scene.time = FLIGHT_SECONDS
    assert scene.found(scene.eu) == (1, 0, 1)
    scene.pod(claim=scene.us)
    assert scene.found(scene.eu) == (0, 0, 0)
    assert scene.found(scene.us) == (1, 1, 1)


async def test_a_promise_counts_before_the_claim_is_written(scene: Scene) -> None:
    pod = scene.pod()
    scene.world.assume(pod, scene.eu)
    scene.pod(labels={"a": "b"})
    assert scene.found(scene.eu) == (1, 1, 1)
    scene.pod(claim=scene.eu)
    scene.world.retract(pod)
    assert scene.found(scene.eu) == (1, 1, 1)


async def test_a_promise_that_came_to_nothing_does_not_count(scene: Scene) -> None:
    pod = scene.pod(claim=scene.us)
    scene.world.assume(pod, scene.eu)
    assert (scene.found(scene.eu), scene.found(scene.us)) == ((1, 1, 1), (0, 0, 0))
    scene.world.retract(pod)
    assert (scene.found(scene.eu), scene.found(scene.us)) == ((0, 0, 0), (1, 1, 1))


async def test_the_flight_ends_with_a_summary_that_knows_of_the_node(scene: Scene) -> None:
    scene.pod(claim=scene.eu)
    scene.time = 3.0
    scene.summary()
    scene.pod(claim=scene.eu, node=scene.eu)
    scene.time += SETTLED_SECONDS - 0.1
    scene.summary()
    assert scene.found(scene.eu) == (1, 1, 0)
    scene.time += 0.1
    assert scene.found(scene.eu) == (1, 1, 0)
    scene.summary()
    assert scene.found(scene.eu) == (1, 0, 0)


async def test_without_a_summary_the_flight_ends_after_a_while(scene: Scene) -> None:
    scene.pod(claim=scene.eu)
    scene.time = 9.0
    scene.pod(claim=scene.eu, node=scene.eu)
    scene.time += FLIGHT_SECONDS - 0.1
    assert scene.found(scene.eu) == (1, 1, 0)
    scene.time += 0.1
    assert scene.found(scene.eu) == (1, 0, 0)
    assert scene.world.in_flight == 0


async def test_a_delegate_that_gets_its_node_late_takes_its_room_then(scene: Scene) -> None:
    scene.pod(claim=scene.eu)
    scene.time = 60.0
    assert scene.found(scene.eu) == (1, 0, 1)
    scene.pod(claim=scene.eu, node=scene.eu)
    assert scene.found(scene.eu) == (1, 1, 0)
    scene.pod(claim=scene.eu, node=scene.eu, phase="Running")
    scene.time += FLIGHT_SECONDS
    assert scene.found(scene.eu) == (1, 0, 0)
    scene.pod(claim=scene.eu, node=scene.eu, phase="Running", labels={"new": "1"})
    assert scene.found(scene.eu) == (1, 0, 0)


async def test_pods_that_had_their_node_before_we_came_are_not_in_flight(scene: Scene) -> None:
    scene.pod(claim=scene.eu, node=scene.eu, phase="Running")
    assert scene.found(scene.eu) == (1, 0, 0)


async def test_a_pod_has_a_delegate_as_soon_as_its_chaperon_says_anything_of_it(scene: Scene) -> None:
    scene.pod(claim=scene.eu)
    scene.delegate("")
    assert scene.found(scene.eu) == (1, 1, 1)
    scene.delegate("Pending")
    assert scene.found(scene.eu) == (1, 1, 0)


async def test_a_delegate_of_an_older_pod_of_this_name_is_another_matter(scene: Scene) -> None:
    scene.delegate("Running", uid="older")
    scene.pod(claim=scene.eu)
    assert scene.found(scene.eu) == (1, 1, 1)


async def test_a_pod_that_takes_the_name_of_another_takes_its_place(scene: Scene) -> None:
    scene.pod(claim=scene.eu, node=scene.eu, phase="Running")
    scene.pod(uid="u2")
    assert scene.found(scene.eu) == (0, 0, 0)
    assert scene.world.holdings.get("u1") is None


async def test_a_pod_that_is_being_deleted_counts_and_is_known_to_go(scene: Scene) -> None:
    scene.pod(claim=scene.eu)
    scene.pod(claim=scene.eu, deletionTimestamp="2026-01-01T00:00:00Z")
    resident = scene.world.holdings.get("u1")
    assert resident is not None
    assert resident.deleting
    assert scene.found(scene.eu) == (1, 1, 1)


async def test_pods_that_wait_are_told_once_of_those_that_have_gone(scene: Scene) -> None:
    for uid in ("u1", "u2"):
        scene.pod(claim=scene.eu, node=scene.eu, uid=uid, name=f"web-{uid}")
    before = scene.changes
    for uid in ("u1", "u2"):
        scene.pod(claim=scene.eu, node=scene.eu, uid=uid, name=f"web-{uid}", phase="Succeeded")
    await until(lambda: scene.changes > before)
    await asyncio.sleep(0.5)
    assert scene.changes == before + 1
