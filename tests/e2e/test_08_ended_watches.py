"""Promise 8: no event is lost if watches end, API servers are killed or resource versions are compacted."""

import asyncio
import json
from typing import Any

import pytest

from hack.lab.sandbox import faults
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]

BURST = 50


@pytest.mark.parametrize("cluster", ["cd", pytest.param("us", marks=pytest.mark.seldom)])
async def test_an_api_server_killed_and_started_again_during_a_burst(
    fleet: Fleet, namespace: str, cluster: str
) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", BURST), namespace)
    for pause in (0.7, 1.5):
        await asyncio.sleep(pause)
        await fleet.sandbox.kill(cluster, "kube-apiserver")
        await fleet.sandbox.start(cluster, "kube-apiserver")
    await fleet.running(namespace, "web", BURST, seconds=120)
    await fleet.agree(namespace)
    # A ReplicaSet controller whose request times out may create too many pods and delete them later. No other pod
    # has ended.
    living = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "web")}
    ended = fleet.census.of(namespace, fleet.census.gone.values())
    assert not living & {delegate.parent_uid for delegate in ended}
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 10}}, namespace)
    await fleet.running(namespace, "web", 10)
    await fleet.agree(namespace)


@pytest.mark.full("Another way in which a watch ends.")
async def test_a_version_compacted_away_while_the_link_is_cut(fleet: Fleet, namespace: str) -> None:
    # A target that still has more pods of another test would get none of these.
    await fleet.all_gone()
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 20), namespace)
    await fleet.running(namespace, "web", 20)
    delegates = [pod for cluster, pod in (await fleet.delegates(namespace)).values() if cluster == "us"]
    expired = await restarts(fleet, "expired")
    await fleet.sandbox.set_link("us", up=False)
    try:
        for pod in delegates[:5]:
            await inside_us(fleet, pod, {"status": {"reason": "Changed", "message": "while nobody looked"}}, "status")
        version = await inside_us(fleet, delegates[5], {"metadata": {"annotations": {"seen": "late"}}})
        await faults.compact(fleet.sandbox["us"].runner.cluster, version)
        # Killing the API server clears its watch cache, which would still serve the compacted version.
        await fleet.sandbox.kill("us", "kube-apiserver")
    finally:
        await fleet.sandbox.set_link("us", up=True)
        await fleet.sandbox.start("us", "kube-apiserver")
    await fleet.agree(namespace)
    uids = {pod["metadata"]["labels"]["multicluster.admiralty.io/parent-uid"] for pod in delegates[:5]}
    proxies = {pod["metadata"]["uid"]: pod for pod in await fleet.pods(namespace)}
    assert {proxies[uid]["status"].get("reason") for uid in uids} == {"Changed"}

    async def annotated() -> bool:
        return [p for p in await fleet.pods(namespace) if p["metadata"]["annotations"].get("seen") == "late"] != []

    await fleet.until("the annotation is home", annotated, about=namespace)
    assert await restarts(fleet, "expired") > expired, "the test has brought about no 410"
    fleet.census.check(namespace, at_most=20)


async def inside_us(fleet: Fleet, pod: Raw, patch: Raw, sub: str = "") -> int:
    """Change a pod from inside the cluster whose link is cut; return its new resource version."""
    where = (pod["metadata"]["name"], f"--namespace={pod['metadata']['namespace']}")
    flags = (
        "--type=merge",
        f"--patch={json.dumps(patch)}",
        "--output=json",
        *((f"--subresource={sub}",) if sub else ()),
    )
    return int(json.loads(await fleet.kubectl("us", "patch", "pod", *where, *flags))["metadata"]["resourceVersion"])


async def restarts(fleet: Fleet, reason: str) -> float:
    """Return how often the source's agent has restarted watches for a reason."""
    lines = (await fleet.metrics("cd")).splitlines()
    counters = [line for line in lines if line.startswith("flotilla_watch_restarts_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in counters if f'reason="{reason}"' in line)
