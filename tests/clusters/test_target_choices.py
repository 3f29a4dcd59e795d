"""Cost of looking up a pod's possible targets, with many ClusterTargets."""

import json
import time
from collections.abc import AsyncIterator

import pytest_asyncio

from agent.api import names
from agent.api.kinds import NAMESPACES, PODS, TARGET_KINDS
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.registry import Targets
from agent.clusters.stores.chaperons import Chaperons
from agent.clusters.stores.namespaces import Namespaces
from agent.clusters.stores.proxies import ProxyPods
from agent.clusters.stores.target_choices import TargetChoices
from agent.clusters.target import Probing
from agent.kube.config import Connection
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.supervisor import Supervisor
from agent.settings import Settings

POD = {"namespace": "ns", "name": "web", "uid": "u", "annotations": {f"{names.SHORT_PREFIX}targets": "eu"}}


def absorb(informer: Informer, **metadata: object) -> Object:
    return informer.absorb(json.dumps({"metadata": {"resourceVersion": "1", **metadata}}).encode())


@pytest_asyncio.fixture
async def choices() -> AsyncIterator[tuple[TargetChoices, Cluster]]:
    """The target choices of a cluster without an API server."""
    local = Cluster(Connection("http://127.0.0.1:1"), "local")
    async with Supervisor("test") as supervisor:
        targets = Targets(local, SystemClock(), Probing(), supervisor)
        namespaces, proxies = Namespaces(local, Chaperons(targets, "U")), ProxyPods(local)
        found = TargetChoices(local, namespaces, proxies, None, Settings())
        for informer in local.either(TARGET_KINDS).informers:
            informer.synced.set()
        absorb(local.informer(NAMESPACES), name="ns")
        yield found, local
    await local.close()


def seconds(choices: TargetChoices, pod: Object) -> float:
    """Return the duration of a lookup in seconds, the minimum of several measurements."""
    measured = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(50):
            choices.of(pod)
        measured.append((time.perf_counter() - began) / 50)
    return min(measured)


async def test_a_look_costs_the_same_with_a_thousand_cluster_targets(choices: tuple[TargetChoices, Cluster]) -> None:
    found, local = choices
    targets = local.either(TARGET_KINDS).informers
    absorb(targets[0], namespace="ns", name="eu", uid="eu")
    pod = Object(PODS, json.dumps({"metadata": POD}).encode())
    first, alone = found.of(pod), seconds(found, pod)
    for number in range(1000):
        absorb(targets[1], name=f"t-{number}", uid=f"t-{number}")
    assert found.of(pod) is first
    assert seconds(found, pod) < 5 * alone


async def test_a_target_that_comes_or_goes_changes_the_choice(choices: tuple[TargetChoices, Cluster]) -> None:
    found, local = choices
    pod = Object(PODS, json.dumps({"metadata": POD}).encode())
    targets = local.either(TARGET_KINDS).informers[0]
    before = found.of(pod)
    absorb(targets, namespace="ns", name="eu", uid="eu")
    after = found.of(pod)
    assert after != before
    absorb(targets, namespace="other", name="us", uid="us")
    assert found.of(pod) is after
