"""Pods of this source in each target, computed from watch events."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, PODS
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.target import Probing, Target
from agent.kube.config import Connection
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.proxypod import proxy_pod
from agent.runtime.supervisor import Supervisor
from agent.scheduler.cache.assumed_pods import ASSUMED_SECONDS, SETTLED_SECONDS, AssumedPods
from agent.scheduler.cache.pod_info import PodInfos
from tests.waiting import until

NOWHERE = Connection("http://127.0.0.1:1")


class Harness:
    """Assumed pods with watch events that the test chooses."""

    def __init__(self, proxies: Informer, targets: Targets, eu: Target, us: Target) -> None:
        self.time = 0.0
        self.changes = 0
        self.eu, self.us = eu.node_name, us.node_name
        self.target = eu
        self.other = us
        self.proxies = proxies
        self.closed: set[str] = set()
        self.pods = AssumedPods(
            proxies,
            targets,
            Chaperons(targets, "here"),
            PodInfos(),
            "here",
            self._changed,
            enabled=lambda namespace: namespace not in self.closed,
            now=lambda: self.time,
        )
        self._version = 0

    def _changed(self) -> None:
        self.changes += 1

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def pod(self, claim: str = "", node: str = "", uid: str = "u1", phase: str = "Pending", **metadata: Any) -> Object:
        """Deliver a watch event for the pod."""
        source = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": [{"name": "m"}]}}
        proxy = proxy_pod(source, [])
        proxy["metadata"] |= {"uid": uid, "resourceVersion": self._next(), **metadata}
        proxy["metadata"]["annotations"][names.ANNOTATION_CLAIM] = claim
        proxy["spec"]["nodeName"] = node
        proxy["status"] = {"phase": phase}
        return self.proxies.absorb(msgspec.json.encode(proxy))

    def delegate(self, phase: str, uid: str = "u1") -> None:
        """Deliver a watch event for the pod's chaperon in eu."""
        metadata = {
            "name": "web-1",
            "namespace": "default",
            "resourceVersion": self._next(),
            "labels": {names.LABEL_PARENT_UID: uid},
            "annotations": {names.ANNOTATION_PARENT_NAME: "web"},
        }
        self.target.chaperons.absorb(msgspec.json.encode({"metadata": metadata, "status": {"phase": phase}}))

    def summary(self, **counted: int) -> None:
        """Publish a new summary of the target eu, with its number of delegates by source."""
        self._tell(self.target, "eu", counted)

    def summary_of_both(self, **counted: int) -> None:
        """Publish a new summary of the one cluster behind both targets."""
        for target in (self.target, self.other):
            self._tell(target, "both", counted)

    def _tell(self, target: Target, uid: str, counted: dict[str, int]) -> None:
        metadata: dict[str, Any] = {"name": names.SUMMARY_NAME, "uid": uid, "resourceVersion": self._next()}
        if counted:
            metadata["annotations"] = {names.ANNOTATION_COUNTED: msgspec.json.encode(counted).decode()}
        target.summaries.absorb(msgspec.json.encode({"metadata": metadata}))

    def assumed(self) -> set[str]:
        """Return the UIDs of the assumed pods."""
        self.pods.refresh()
        return {uid for node in (self.eu, self.us) for uid in self.pods.usages.of(node).assumed}

    def found(self, node: str) -> tuple[int, int, int]:
        """Return pods, assumed pods and pods without delegate of a target."""
        self.pods.refresh()
        usage = self.pods.usages.of(node)
        assert len(usage.assumed) <= self.pods.number
        return len(usage.pods), len(usage.assumed), len(usage.undelegated)


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Harness]:
    """Open two targets without a running API server, and the informer of proxy pods."""
    local = Cluster(NOWHERE, "local")
    async with Supervisor("test") as supervisor:
        targets = Targets(local, SystemClock(), Probing(), supervisor)
        eu, us = [await targets.connect(("default", name), NOWHERE, "x") for name in ("eu", "us")]
        for target in (eu, us):
            target.identify()
        proxies = Informer(local.client, PODS)
        for informer, kind in (
            (proxies, PODS),
            (eu.chaperons, CHAPERONS),
            (eu.summaries, CLUSTER_SUMMARIES),
            (us.summaries, CLUSTER_SUMMARIES),
        ):
            assert informer.kind == kind
            informer.synced.set()
        yield Harness(proxies, targets, eu, us)
        await targets.close()
    await local.close()


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    """Harness for a single test."""
    async with opened() as found:
        yield found


async def test_a_pod_counts_where_it_is_claimed_then_bound_until_it_ends(harness: Harness) -> None:
    harness.pod()
    assert harness.found(harness.eu) == (0, 0, 0)
    harness.pod(claim=harness.eu)
    assert harness.found(harness.eu) == (1, 1, 1)
    harness.pod(claim=harness.eu, node=harness.eu)
    assert harness.found(harness.eu) == (1, 1, 0)
    harness.pod(claim=harness.eu, node=harness.eu, phase="Succeeded")
    assert harness.found(harness.eu) == (0, 0, 0)


async def test_where_a_namespace_is_not_enabled_only_a_chaperon_counts(harness: Harness) -> None:
    harness.closed = {"default"}
    for node in ("", harness.eu):
        harness.pod(claim=harness.eu, node=node)
        assert harness.found(harness.eu) == (0, 0, 0)
    harness.delegate("Running")
    assert harness.found(harness.eu) == (1, 0, 0)
    harness.closed = set()
    harness.pods.namespace_turned("default")
    assert harness.found(harness.eu) == (1, 0, 0)
    harness.pod(claim=harness.us, uid="u2")
    assert harness.found(harness.us) == (1, 1, 1)
    harness.closed = {"default"}
    harness.pods.namespace_turned("default")
    assert harness.found(harness.us) == (0, 0, 0)


async def test_a_pod_that_moves_on_is_in_flight_anew(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.time = ASSUMED_SECONDS
    assert harness.found(harness.eu) == (1, 0, 1)
    harness.pod(claim=harness.us)
    assert harness.found(harness.eu) == (0, 0, 0)
    assert harness.found(harness.us) == (1, 1, 1)


async def test_a_promise_counts_before_the_claim_is_written(harness: Harness) -> None:
    pod = harness.pod()
    harness.pods.assume(pod, harness.eu)
    harness.pod(labels={"a": "b"})
    assert harness.found(harness.eu) == (1, 1, 1)
    harness.pod(claim=harness.eu)
    harness.pods.finish_claim(pod)
    assert harness.found(harness.eu) == (1, 1, 1)


async def test_a_promise_that_came_to_nothing_does_not_count(harness: Harness) -> None:
    pod = harness.pod(claim=harness.us)
    harness.pods.assume(pod, harness.eu)
    assert (harness.found(harness.eu), harness.found(harness.us)) == ((1, 1, 1), (0, 0, 0))
    harness.pods.finish_claim(pod)
    assert (harness.found(harness.eu), harness.found(harness.us)) == ((0, 0, 0), (1, 1, 1))


async def test_the_flight_ends_with_a_summary_that_knows_of_the_node(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.time = 3.0
    harness.summary()
    harness.pod(claim=harness.eu, node=harness.eu)
    harness.time += SETTLED_SECONDS - 0.1
    harness.summary()
    assert harness.found(harness.eu) == (1, 1, 0)
    harness.time += 0.1
    assert harness.found(harness.eu) == (1, 1, 0)
    harness.summary()
    assert harness.found(harness.eu) == (1, 0, 0)


async def test_without_a_summary_the_flight_ends_after_a_while(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.time = 9.0
    harness.pod(claim=harness.eu, node=harness.eu)
    harness.time += ASSUMED_SECONDS - 0.1
    assert harness.found(harness.eu) == (1, 1, 0)
    harness.time += 0.1
    assert harness.found(harness.eu) == (1, 0, 0)
    assert harness.pods.number == 0


async def test_a_delegate_that_gets_its_node_late_takes_its_room_then(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.time = 60.0
    assert harness.found(harness.eu) == (1, 0, 1)
    harness.pod(claim=harness.eu, node=harness.eu)
    assert harness.found(harness.eu) == (1, 1, 0)
    harness.pod(claim=harness.eu, node=harness.eu, phase="Running")
    harness.time += ASSUMED_SECONDS
    assert harness.found(harness.eu) == (1, 0, 0)
    harness.pod(claim=harness.eu, node=harness.eu, phase="Running", labels={"new": "1"})
    assert harness.found(harness.eu) == (1, 0, 0)


async def test_pods_that_had_their_node_before_we_came_are_not_assumed(harness: Harness) -> None:
    harness.pod(claim=harness.eu, node=harness.eu, phase="Running")
    assert harness.found(harness.eu) == (1, 0, 0)


async def test_a_pod_has_a_delegate_as_soon_as_its_chaperon_says_anything_of_it(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.delegate("")
    assert harness.found(harness.eu) == (1, 1, 1)
    harness.delegate("Pending")
    assert harness.found(harness.eu) == (1, 1, 0)


async def test_a_delegate_of_an_older_pod_of_this_name_is_another_matter(harness: Harness) -> None:
    harness.delegate("Running", uid="older")
    harness.pod(claim=harness.eu)
    assert harness.found(harness.eu) == (1, 1, 1)


async def test_a_pod_that_takes_the_name_of_another_takes_its_place(harness: Harness) -> None:
    harness.pod(claim=harness.eu, node=harness.eu, phase="Running")
    harness.pod(uid="u2")
    assert harness.found(harness.eu) == (0, 0, 0)
    assert harness.pods.usages.get("u1") is None


async def test_a_pod_that_is_being_deleted_counts_and_is_known_to_go(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.pod(claim=harness.eu, deletionTimestamp="2026-01-01T00:00:00Z")
    placed = harness.pods.usages.get("u1")
    assert placed is not None
    assert placed.deleting
    assert harness.found(harness.eu) == (1, 1, 1)


async def test_pods_that_wait_are_told_once_of_those_that_have_gone(harness: Harness) -> None:
    for uid in ("u1", "u2"):
        harness.pod(claim=harness.eu, node=harness.eu, uid=uid, name=f"web-{uid}")
    before = harness.changes
    for uid in ("u1", "u2"):
        harness.pod(claim=harness.eu, node=harness.eu, uid=uid, name=f"web-{uid}", phase="Succeeded")
    await until(lambda: harness.changes > before)
    await asyncio.sleep(0.5)
    assert harness.changes == before + 1


async def test_a_pod_that_a_summary_counts_is_not_in_flight_any_more(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.summary(here=0, elsewhere=7)
    assert harness.found(harness.eu) == (1, 1, 1)
    harness.summary(here=1, elsewhere=7)
    assert harness.found(harness.eu) == (1, 0, 1)
    harness.pod(claim=harness.eu, node=harness.eu)
    assert harness.found(harness.eu) == (1, 0, 0)


async def test_of_several_pods_those_are_counted_first_that_are_known_to_have_a_node(harness: Harness) -> None:
    for uid in ("u1", "u2", "u3"):
        harness.pod(claim=harness.eu, uid=uid, name=f"web-{uid}")
    harness.pod(claim=harness.eu, node=harness.eu, uid="u2", name="web-u2")
    harness.summary(here=1)
    assert harness.assumed() == {"u1", "u3"}
    harness.summary(here=2)
    assert harness.assumed() == {"u3"}


async def test_pods_that_had_their_node_before_we_came_are_counted_before_all_others(harness: Harness) -> None:
    harness.pod(claim=harness.eu, node=harness.eu, uid="old", name="old", phase="Running")
    harness.pod(claim=harness.eu)
    harness.summary(here=1)
    assert harness.assumed() == {"u1"}


async def test_a_pod_that_gets_its_node_late_and_is_counted_already_takes_its_room_once(harness: Harness) -> None:
    harness.pod(claim=harness.eu)
    harness.time = 60.0
    harness.summary(here=1)
    harness.pod(claim=harness.eu, node=harness.eu)
    assert harness.found(harness.eu) == (1, 0, 0)


async def test_targets_that_lead_to_the_same_cluster_are_counted_together(harness: Harness) -> None:
    harness.pod(claim=harness.eu, node=harness.eu, uid="old", name="old", phase="Running")
    harness.pod(claim=harness.us, uid="u2", name="web-2")
    harness.summary_of_both(here=1)
    assert harness.assumed() == {"u2"}
    harness.summary_of_both(here=2)
    assert harness.assumed() == set()


async def test_what_was_counted_for_a_pod_that_has_gone_was_not_another_one(harness: Harness) -> None:
    for uid in ("u1", "u2"):
        harness.pod(claim=harness.eu, uid=uid, name=f"web-{uid}")
    harness.summary(here=1)
    assert harness.assumed() == {"u2"}
    harness.pod(claim=harness.us, uid="u2", name="web-u2")
    harness.summary(here=0)
    assert harness.assumed() == {"u1", "u2"}


events = st.lists(
    st.tuples(st.sampled_from(["claim", "place", "bind", "end", "tell"]), st.integers(0, 2), st.booleans()), max_size=40
)


@given(events)
async def test_after_each_summary_as_many_are_in_flight_as_are_held_and_not_counted(
    events: list[tuple[str, int, bool]],
) -> None:
    async with opened() as harness:
        held: dict[str, str] = {}
        placed: set[str] = set()
        for verb, number, flag in [*events, ("tell", 0, True)]:
            uid = f"u{number}"
            if verb == "claim" and uid not in held:
                held[uid] = harness.eu if flag else harness.us
                harness.pod(claim=held[uid], uid=uid, name=uid)
            elif verb == "place" and uid in held:
                placed.add(uid)
            elif verb == "bind" and uid in placed:
                harness.pod(claim=held[uid], node=held[uid], uid=uid, name=uid)
            elif verb == "end" and uid in held:
                harness.pod(claim=held.pop(uid), uid=uid, name=uid, phase="Succeeded")
                placed.discard(uid)
            elif verb == "tell":
                harness.summary_of_both(here=len(placed))
                assert len(harness.assumed()) == len(held.keys() - placed)
