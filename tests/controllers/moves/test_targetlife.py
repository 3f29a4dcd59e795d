"""Targets that are cut off from real clusters: their conditions, and their recovery."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import EVENTS, NODES, PODS, TARGETS
from agent.api.names import virtual_node
from agent.kube.client import Client
from agent.kube.config import load
from agent.moves.lost_targets.controller import TargetLifeController
from agent.moves.lost_targets.overlimit import OverLimitController
from agent.moves.lost_targets.retired import RetiredController
from agent.pods.feedback.controller import Feedback
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.targets.summary import SummaryController
from agent.targets.target import TargetController
from agent.targets.virtual_node import VirtualNodeController
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig
from tests.controllers.targets.test_target import proxy
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

CONTROLLERS = (TargetController, VirtualNodeController, TargetLifeController, RetiredController)


@contextlib.asynccontextmanager
async def at_work(pair: Pair, *controllers: Any, **settings: Any) -> AsyncIterator[Relay]:
    """Run two targets: `there` behind a relay, and the local cluster under another UID, which always answers."""
    here, there = pair.clusters
    async with (
        running(there, SummaryController),
        Relay.started(load(str(there.kubeconfig))) as relay,
        running(here, *CONTROLLERS, *controllers, moves=True, **settings) as deps,
    ):
        await add(pair.here, pair.namespace, "there", kubeconfig(there, server=relay.connection.server))
        await add(pair.here, pair.namespace, "here", kubeconfig(here))
        for name in ("there", "here"):
            await condition(pair.here, pair.namespace, name, "Stable", "True")
            await until(lambda name=name: known(pair, name))
        pair.deps = deps
        yield relay


async def known(pair: Pair, name: str) -> bool:
    return bool((await pair.here.get(TARGETS, name, pair.namespace)).get("status", {}).get("clusterUID"))


async def annotate(client: Client, namespace: str, name: str, **given: str | None) -> None:
    patch = {f"multicluster/{suffix.replace('_', '-')}": value for suffix, value in given.items()}
    await client.patch(TARGETS, name, {"metadata": {"annotations": patch}}, namespace)


async def taints(pair: Pair, name: str) -> set[str]:
    node = await pair.here.get(NODES, virtual_node(pair.namespace, name))
    return {taint["key"] for taint in node["spec"]["taints"]}


async def test_it_is_lost_comes_back_and_is_stable_after_a_while(pair: Pair) -> None:
    # Only tests use terms of less than 10 s.
    async with at_work(pair, failover_after=1.0, stable_after=1.0) as relay:
        relay.cut()
        await condition(pair.here, pair.namespace, "there", "Lost", "True", "NoAnswer")
        await until(lambda: has_taint(pair, "multicluster/lost"))
        told = await pair.here.get(TARGETS, "there", pair.namespace)
        assert "multicluster/outages" in told["metadata"]["annotations"]
        assert find_condition(told["status"]["conditions"], "FailoverHeld") is None
        relay.mend()
        await condition(pair.here, pair.namespace, "there", "Lost", "False", "Answers")
        await condition(pair.here, pair.namespace, "there", "Stable", "True")
        await until(lambda: has_no_taint(pair, "multicluster/lost"))
        events = await pair.here.list(EVENTS, pair.namespace)
        assert "TargetLost" in {event["reason"] for event in events}


async def test_a_target_whose_cluster_another_target_reaches_is_not_lost(pair: Pair) -> None:
    """A dead load balancer in front of one Target is no evidence about the pods in the cluster behind it."""
    async with at_work(pair, failover_after=3.0) as relay:
        await add(pair.here, pair.namespace, "direct", kubeconfig(pair.clusters[1]))
        await condition(pair.here, pair.namespace, "direct", "Stable", "True")
        await until(lambda: known(pair, "direct"))
        relay.cut()
        await condition(pair.here, pair.namespace, "there", "Lost", "False", "ClusterAnswers")
        assert pair.deps is not None
        key = (pair.namespace, "there")
        for _ in range(6):
            await asyncio.sleep(1)
            assert pair.deps.target_outages.silent_for(key) < 3.0
        await pair.here.delete(TARGETS, "direct", pair.namespace)
        await condition(pair.here, pair.namespace, "there", "Lost", "True", "NoAnswer")


async def has_taint(pair: Pair, key: str) -> bool:
    return key in await taints(pair, "there")


async def has_no_taint(pair: Pair, key: str) -> bool:
    return key not in await taints(pair, "there")


async def test_another_leader_goes_on_and_one_that_flaps_gets_nothing_new(pair: Pair) -> None:
    async with at_work(pair, failover_after=1.0, stable_after=600.0) as relay:
        relay.cut()
        await condition(pair.here, pair.namespace, "there", "Lost", "True", "NoAnswer")
        relay.mend()
        await condition(pair.here, pair.namespace, "there", "Stable", "False", "Flapping")
        await until(lambda: has_taint(pair, "multicluster/returning"))
    async with running(pair.clusters[0], *CONTROLLERS, moves=True, stable_after=0.1):
        await condition(pair.here, pair.namespace, "there", "Lost", "False", "Unreachable")


async def hold(pair: Pair, relay: Relay) -> None:
    """Cut off all targets that count: `here` does not, since it is declared lost."""
    await annotate(pair.here, pair.namespace, "here", lost="true")
    await condition(pair.here, pair.namespace, "here", "Lost", "True", "Declared")
    relay.cut()
    await condition(pair.here, pair.namespace, "there", "FailoverHeld", "True", "MostTargetsLost")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_when_all_are_away_nothing_is_lost_unless_a_person_says_so(pair: Pair) -> None:
    async with at_work(pair, failover_after=1.0) as relay:
        await hold(pair, relay)
        told = await pair.here.get(TARGETS, "there", pair.namespace)
        assert (find_condition(told["status"]["conditions"], "Lost") or {}).get("status") != "True"
        await annotate(pair.here, pair.namespace, "there", failover_now="true")
        await condition(pair.here, pair.namespace, "there", "Lost", "True", "Asked")
        await condition(pair.here, pair.namespace, "there", "FailoverHeld", "False")
        relay.mend()
        await until(lambda: is_taken_away(pair))


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_the_time_in_which_failover_was_held_does_not_count(pair: Pair) -> None:
    async with at_work(pair, failover_after=4.0) as relay:
        # The condition is set after five seconds, when the term would be over.
        await hold(pair, relay)
        await annotate(pair.here, pair.namespace, "here", lost=None)
        await condition(pair.here, pair.namespace, "there", "FailoverHeld", "False")
        told = await pair.here.get(TARGETS, "there", pair.namespace)
        assert (find_condition(told["status"]["conditions"], "Lost") or {}).get("status") != "True"
        await condition(pair.here, pair.namespace, "there", "Lost", "True", "NoAnswer")
        relay.mend()


async def is_taken_away(pair: Pair) -> bool:
    found = await pair.here.get(TARGETS, "there", pair.namespace)
    return "multicluster/failover-now" not in (found["metadata"].get("annotations") or {})


async def test_what_is_to_be_emptied_is_tainted_until_it_is_not(pair: Pair) -> None:
    async with at_work(pair):
        await annotate(pair.here, pair.namespace, "there", retire="true")
        await until(lambda: has_taint(pair, "multicluster/retiring"))
        await annotate(pair.here, pair.namespace, "there", retire=None)
        await until(lambda: has_no_taint(pair, "multicluster/retiring"))


async def test_a_target_says_how_far_it_is_with_being_emptied(pair: Pair) -> None:
    async with at_work(pair):
        node = virtual_node(pair.namespace, "there")
        await pair.here.create(PODS, proxy("web", pair.namespace, "there", node=node))
        await annotate(pair.here, pair.namespace, "there", retire="true")
        await condition(pair.here, pair.namespace, "there", "Retired", "False", "Emptying")
        placed = {"type": "multicluster/Placed", "status": "False", "reason": "Held", "message": "nothing makes it"}
        await pair.here.patch(PODS, "web", {"status": {"conditions": [placed]}}, pair.namespace, sub="status")
        found = await condition(pair.here, pair.namespace, "there", "Retired", "False", "Blocked")
        assert f"Held: {pair.namespace}/web (nothing makes it)" in found["message"]
        await pair.end("web")
        await condition(pair.here, pair.namespace, "there", "Retired", "True", "Empty")
        await annotate(pair.here, pair.namespace, "there", retire=None)
        await condition(pair.here, pair.namespace, "there", "Retired", "False", "InUse")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_lower_limits_evict_nothing_and_it_is_told_what_goes_beyond_them(pair: Pair) -> None:
    async with at_work(pair, OverLimitController):
        node = virtual_node(pair.namespace, "there")
        for name in ("a", "b"):
            await pair.here.create(PODS, proxy(name, pair.namespace, "there", node=node))

        async def limit(pods: int | None) -> None:
            await pair.here.patch(TARGETS, "there", {"spec": {"limits": {"pods": pods}}}, pair.namespace)

        await limit(1)
        found = await condition(pair.here, pair.namespace, "there", "OverLimit", "True", "OverLimit")
        assert "request 2 pods there, of 1 that its limits allow" in found["message"]
        assert len(await pair.here.list(PODS, pair.namespace)) == 2
        await pair.end("a")
        await condition(pair.here, pair.namespace, "there", "OverLimit", "False", "InBounds")
        await pair.here.create(PODS, proxy("c", pair.namespace, "there", node=node))
        await limit(0)
        await condition(pair.here, pair.namespace, "there", "OverLimit", "True", "OverLimit")
        await limit(None)
        await condition(pair.here, pair.namespace, "there", "OverLimit", "False", "InBounds")


async def test_nothing_waits_for_a_target_that_is_declared_lost(pair: Pair) -> None:
    node = virtual_node(pair.namespace, "there")
    async with at_work(pair, Feedback, OrphanFinalizersController) as relay:
        relay.cut()
        await condition(pair.here, pair.namespace, "there", "Ready", "False", "Unreachable")
        for name, where in (("ending", node), ("running", node), ("waiting", "")):
            pod = proxy(name, pair.namespace, "there", node=where)
            pod["metadata"].setdefault("annotations", {})[names.ANNOTATION_CLAIM] = node
            await pair.here.create(PODS, pod)
        await pair.here.delete(PODS, "ending", pair.namespace)
        await annotate(pair.here, pair.namespace, "there", lost="true")
        await gone(lambda: pair.here.get(PODS, "ending", pair.namespace))
        await until(lambda: is_free(pair, "waiting"))
        assert not await is_free(pair, "running")
    for name in ("running", "waiting"):
        await pair.end(name)


async def is_free(pair: Pair, name: str) -> bool:
    found = await pair.here.get(PODS, name, pair.namespace)
    return names.finalizer(pair.namespace, "there") not in (found["metadata"].get("finalizers") or ())
