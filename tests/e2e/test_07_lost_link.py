"""Promise 7: a target cut off for 30 s keeps its pods, gets no new ones, and is up to date within seconds
afterwards."""

import asyncio
import json
import time
from typing import Any

import pytest

from agent.api.kinds import NODES, PODS, TARGETS
from agent.api.names import virtual_node
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]

SECONDS_AFTERWARDS = 20.0


@pytest.mark.parametrize("seconds", [8.0, pytest.param(30.0, marks=pytest.mark.seldom)])
async def test_a_link_cut_for_seconds(fleet: Fleet, namespace: str, seconds: float) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 10), namespace)
    await fleet.running(namespace, "web", 10)
    await fleet.agree(namespace)
    before = await fleet.delegates(namespace)
    away = {uid: pod for uid, (cluster, pod) in before.items() if cluster == "us"}
    assert away
    changed = next(iter(away))
    await fleet.sandbox.set_link("us", up=False)
    try:
        cut_at = time.monotonic()
        await noticed(fleet, namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("more", 6), namespace)
        await fleet.running(namespace, "more", 6)
        await restart_a_container(fleet, away[changed])
        await asyncio.sleep(max(0.0, cut_at + seconds - time.monotonic()))
        here = {pod["metadata"]["uid"]: pod for pod in await fleet.pods(namespace, "web")}
        assert before.keys() <= here.keys(), "a pod of the lost target was replaced"
        assert all(here[uid]["status"]["phase"] == "Running" for uid in away)
    finally:
        await fleet.sandbox.set_link("us", up=True)

    async def told() -> bool:
        pods = {pod["metadata"]["uid"]: pod for pod in await fleet.pods(namespace, "web")}
        return bool(pods[changed]["status"]["containerStatuses"][0]["restartCount"] == 4)

    await fleet.until("the status of the time of the cut is home", told, about=namespace, seconds=SECONDS_AFTERWARDS)
    await fleet.agree(namespace, seconds=SECONDS_AFTERWARDS)
    after = await fleet.delegates(namespace)
    assert {uid: pod["metadata"]["uid"] for uid, pod in away.items()} == {
        uid: after[uid][1]["metadata"]["uid"] for uid in away
    }
    assert {cluster for uid, (cluster, _) in after.items() if uid not in before} == {"eu"}
    fleet.census.check(namespace, at_most=16)
    await fleet.ready(namespace, "us")


async def noticed(fleet: Fleet, namespace: str) -> None:
    """Wait until the Target and its virtual node report that the cluster is unreachable."""

    async def said() -> bool:
        target = await fleet.source.get(TARGETS, "us", namespace)
        node = await fleet.source.get(NODES, virtual_node(namespace, "us"))
        taints = {taint["key"] for taint in node["spec"].get("taints", ())}
        return (
            condition(target, "Reachable").get("status") == "False"
            and "multicluster/unreachable" in taints
            and condition(node, "Ready")["status"] == "True"
        )

    await fleet.until("the Target is unreachable", said, about=namespace, seconds=20)


async def restart_a_container(fleet: Fleet, delegate: Raw) -> None:
    """Change a delegate's status inside the cluster whose link is cut."""
    status = delegate["status"]["containerStatuses"]
    patch = {"status": {"containerStatuses": [{**status[0], "restartCount": 4}]}}
    metadata = delegate["metadata"]
    await fleet.kubectl(
        "us",
        "patch",
        "pod",
        metadata["name"],
        f"--namespace={metadata['namespace']}",
        "--subresource=status",
        "--type=merge",
        f"--patch={json.dumps(patch)}",
    )


@pytest.mark.full("A variant of the test that cuts a link.")
async def test_a_pod_deleted_while_its_target_is_away_waits_for_it(fleet: Fleet, namespace: str) -> None:
    pod = manifests.pod("a", nodeSelector={manifests.REGION: "us"})
    await fleet.source.create(PODS, pod, namespace)
    await fleet.running(namespace, "a", 1)
    await fleet.sandbox.set_link("us", up=False)
    try:
        await noticed(fleet, namespace)
        await fleet.source.delete(PODS, "a", namespace)
        await asyncio.sleep(3)
        held = await fleet.source.get(PODS, "a", namespace)
        assert held["metadata"]["finalizers"], "no proxy pod may go while its delegate may still run"
    finally:
        await fleet.sandbox.set_link("us", up=True)
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace, seconds=20)
