"""Control plane processes die, restart or freeze during a burst: each pod runs once, and running pods stay."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from agent.kube.errors import KubeError
from tests.e2e import manifests
from tests.e2e.faults.test_collector import standing_still
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.waiting import until

FEW, BURST = 6, 24
STILL_SECONDS = 8.0
Fault = Callable[[Fleet, str, str], Awaitable[None]]
pytestmark = [pytest.mark.usefixtures("processes_only"), pytest.mark.seldom]


async def killed(fleet: Fleet, cluster: str, process: str) -> None:
    await fleet.sandbox.kill(cluster, process, signal.SIGKILL)
    await fleet.sandbox.start(cluster, process)


async def restarted(fleet: Fleet, cluster: str, process: str) -> None:
    await fleet.sandbox.restart(cluster, process)


async def stopped(fleet: Fleet, cluster: str, process: str) -> None:
    async with standing_still(fleet, cluster, process):
        await asyncio.sleep(STILL_SECONDS)


def case(cluster: str, process: str, fault: Fault) -> object:
    return pytest.param(cluster, process, fault, id=f"{process} of {cluster} {fault.__name__}")


@pytest.mark.parametrize(
    ("cluster", "process", "fault"),
    [
        case("cd", "etcd", killed),
        case("us", "etcd", killed),
        case("cd", "etcd", restarted),
        case("us", "etcd", restarted),
        case("cd", "etcd", stopped),
        case("us", "etcd", stopped),
        case("cd", "kube-apiserver", restarted),
        case("us", "kube-apiserver", restarted),
        case("cd", "kube-apiserver", stopped),
        case("us", "kube-apiserver", stopped),
    ],
)
async def test_a_burst_outlasts_it(fleet: Fleet, namespace: str, cluster: str, process: str, fault: Fault) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.spread_out("staying", FEW), namespace)
    staying = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "staying", FEW)}
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", BURST), namespace)
    for pause in (0.7, 1.5):
        await asyncio.sleep(pause)
        await fault(fleet, cluster, process)
        await until(lambda: answers(fleet, cluster), 60, what=f"{cluster} answers again", forgiven=KubeError)
    # A fake kubelet does not retry failed writes, so that bound pods would stay Pending. Restart it.
    await fleet.sandbox.restart(cluster, "kwok")
    await fleet.running(namespace, "web", BURST, seconds=120)
    await fleet.agree(namespace)
    assert {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "staying")} == staying
    # A ReplicaSet controller whose request times out may create too many pods and delete them later. No other pod
    # has ended.
    living = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace)}
    ended = {each.parent_uid for each in fleet.census.of(namespace, fleet.census.gone.values())}
    assert not living & ended, "what was wanted was deleted"
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": FEW}}, namespace)
    await fleet.running(namespace, "web", FEW)
    await fleet.agree(namespace)


async def answers(fleet: Fleet, cluster: str) -> bool:
    """Check that a cluster answers from its etcd; raises KubeError if not."""
    await fleet.clients[cluster].list(DEPLOYMENTS, "default")
    return True
