"""A target behind a slow or silent link does not delay pods that can run in another target."""

import asyncio
import functools
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import NODES, PODS, TARGETS
from agent.base.metrics import REGISTRY
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.store import Key
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.scheduler.chaperon_writer import ChaperonWriter
from agent.scheduler.controller import ProxyScheduler
from agent.scheduler.limits import PrioritySemaphore
from agent.targets.target.controller import TargetController
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import chaperons, connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, tear_away
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

ALL = (Chaperon, Feedback, ProxyScheduler)
LINK = "flotilla.test/link"
SLOW = 0.5
"""Threshold for a slow target in seconds, the agents' default."""


def is_post(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/podchaperons")


def gauge(target: Target) -> float | None:
    return REGISTRY.get_sample_value("flotilla_target_slow", {"target": "/".join(target.key)})


async def bound(client: Client, namespace: str, prefix: str, count: int) -> set[str]:
    """Return the virtual nodes of this many pods, once all of them run."""
    pods = [await pod_where(client, namespace, f"{prefix}-{number}", phase="Running") for number in range(count)]
    return {pod["spec"]["nodeName"] for pod in pods}


def pinned(name: str, namespace: str, link: str) -> dict[str, Any]:
    """Create a pod that may run in one target only."""
    pod = elected(name, namespace)
    constraints = f"nodeSelector: {{{LINK}: {link}}}"
    pod["metadata"]["annotations"][names.PREFIX + names.PROXY_CONSTRAINTS] = constraints
    return pod


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_target_known_to_be_slow_gets_no_pod_that_can_go_elsewhere_until_it_is_prompt(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL, slow_target=SLOW) as deps,
        connected(deps, client, namespace, far=relay.connection, near=None) as targets,
    ):
        far, near = targets["far"], targets["near"]
        await until(lambda: gauge(far) == 0)
        relay.delay(1.0)
        await until(lambda: far.slow)
        assert gauge(far) == 1
        asked = len(relay.requests)
        for number in range(10):
            await create(client, elected(f"away-{number}", namespace), [*targets.values()])
        assert await bound(client, namespace, "away", 10) == {near.node_name}
        assert not [request for request in relay.requests[asked:] if is_post(*request)]
        relay.delay(0.0)
        await until(lambda: not far.slow)
        assert gauge(far) == 0
        for number in range(6):
            await create(client, elected(f"back-{number}", namespace), [*targets.values()])
        assert far.node_name in await bound(client, namespace, "back", 6)
    assert gauge(far) is None


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_pods_that_wait_for_a_target_that_went_silent_leave_workers_to_the_others(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL, slow_target=SLOW, max_in_flight=8) as deps,
        connected(deps, client, namespace, far=relay.connection, near=None) as targets,
    ):
        for name, target in targets.items():
            await client.patch(NODES, target.node_name, {"metadata": {"labels": {LINK: name}}})
        far, near = targets["far"], targets["near"]
        # Reads are answered, so that the target does not count as unreachable.
        relay.freeze(is_post)
        for number in range(12):
            await create(client, pinned(f"stuck-{number}", namespace, "far"), [*targets.values()])
        await until(lambda: sum(is_post(*request) for request in relay.requests) >= 2)
        await until(lambda: far.slow)
        for number in range(10):
            await create(client, elected(f"free-{number}", namespace), [*targets.values()])
        assert await bound(client, namespace, "free", 10) == {near.node_name}
        waiting = [pod for pod in await client.list(PODS, namespace) if pod["metadata"]["name"].startswith("stuck")]
        assert not any(pod["spec"].get("nodeName") for pod in waiting)
        relay.mend()
        assert await bound(client, namespace, "stuck", 12) == {far.node_name}
        parents = [each["metadata"]["labels"][names.LABEL_PARENT_UID] for each in await chaperons(client, namespace)]
        assert len(parents) == len(set(parents)) == 22


async def test_pods_go_to_a_target_that_is_behind_in_the_order_in_which_they_came(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    create_chaperon = ChaperonWriter.create

    async def noting(self: ChaperonWriter, proxy: dict[str, Any], target: Target) -> None:
        sent.append(proxy["metadata"]["name"])
        await create_chaperon(self, proxy, target)

    monkeypatch.setattr(ChaperonWriter, "create", noting)
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL, slow_target=SLOW, max_in_flight=4) as deps,
        connected(deps, client, namespace, far=relay.connection) as targets,
    ):
        relay.delay(0.25)
        came = [f"web-{number}" for number in range(16)]
        for name in came:
            await create(client, elected(name, namespace), [*targets.values()])
        await bound(client, namespace, "web", len(came))
    assert sorted(sent) == sorted(came)
    assert max(abs(sent.index(name) - place) for place, name in enumerate(came)) < 4


async def test_pods_that_can_no_longer_go_to_a_target_hold_up_nobody_who_waits_for_it(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting_for_it: set[str] = set()
    admits = PrioritySemaphore.admits

    def noting(self: PrioritySemaphore[Key], uid: str, key: Key, priority: int) -> bool:
        admitted = admits(self, uid, key, priority)
        if not admitted:
            waiting_for_it.add(key[1])
        return admitted

    monkeypatch.setattr(PrioritySemaphore, "admits", noting)
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL, slow_target=SLOW, max_in_flight=2) as deps,
        connected(deps, client, namespace, far=relay.connection) as targets,
    ):
        far = targets["far"]
        await client.patch(NODES, far.node_name, {"metadata": {"labels": {LINK: "far"}}})
        relay.freeze(is_post)
        await create(client, elected("begun", namespace), [far])
        await until(lambda: any(is_post(*request) for request in relay.requests))
        barred = [f"barred-{number}" for number in range(8)]
        for name in barred:
            await create(client, pinned(name, namespace, "far"), [far])
        await create(client, elected("free", namespace), [far])
        await until(lambda: waiting_for_it >= {*barred, "free"})
        await client.patch(NODES, far.node_name, {"metadata": {"labels": {LINK: None}}})
        for name in barred:
            await until(functools.partial(_refused, client, namespace, name))
        relay.mend()
        relay.break_streams()
        await pod_where(client, namespace, "free", node=far.node_name)


async def _refused(client: Client, namespace: str, name: str) -> bool:
    pod = await client.get(PODS, name, namespace)
    return find_condition(pod["status"].get("conditions") or [], "PodScheduled") is not None


async def test_the_target_says_that_it_is_slow_and_that_it_is_prompt_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, TargetController, slow_target=SLOW),
    ):
        try:
            await add(client, namespace, "far", kubeconfig(cluster, server=relay.connection.server, user={}))
            await condition(client, namespace, "far", "Ready", "True")
            await asyncio.sleep(0.5)
            target = await client.get(TARGETS, "far", namespace)
            assert find_condition(target["status"]["conditions"], "Responsive") is None
            relay.delay(1.0)
            told = await condition(client, namespace, "far", "Responsive", "False", "Slow")
            assert "go to other targets" in told["message"]
            target = await client.get(TARGETS, "far", namespace)
            ready = find_condition(target["status"]["conditions"], "Ready")
            assert ready is not None
            assert ready["status"] == "True"
            relay.delay(0.0)
            await condition(client, namespace, "far", "Responsive", "True", "Prompt")
        finally:
            await tear_away(client, namespace)
