"""Doctor's and join's reports about pods that stay, and about pods that virtual nodes obstruct."""

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from agent.api.kinds import DEPLOYMENTS, NAMESPACES, NODES, PODS
from agent.cli.checks.finding import Level
from agent.cli.checks.staying import TOPOLOGY, misplaced, spread_hard, staying
from agent.cli.checks.view import ClusterView, Spread, View
from agent.kube.client import Client
from agent.kube.errors import NotFound
from tests.cli.test_checks import NOW
from tests.e2e import manifests

REGION, ZONE, _ = TOPOLOGY
VIEW = View(NOW, "1", ClusterView("this cluster"), misplaced=(), spread=())


def test_doctor_names_pods_that_run_nowhere_and_workloads_that_virtual_nodes_are_domains_for() -> None:
    assert [each.level for each in staying(VIEW)] == [Level.OK]
    spread = (Spread("Deployment a/x", (REGION,)), Spread("StatefulSet a/y", (REGION,)))
    lost, domains = staying(replace(VIEW, misplaced=("a/web",), spread=spread))
    assert (lost.level, domains.level) == (Level.WARN, Level.WARN)
    assert "a/web" in lost.what
    assert "Deployment a/x, StatefulSet a/y" in domains.what
    assert "nodeTaintsPolicy: Honor" in domains.remedy
    assert list(staying(replace(VIEW, misplaced=None, spread=None))) == []


def deployment(name: str, elected: bool = False, **constraint: Any) -> dict[str, Any]:
    hard = {
        "maxSkew": 1,
        "topologyKey": REGION,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
        **constraint,
    }
    made = manifests.deployment(name, 0, topologySpreadConstraints=[hard])
    if not elected:
        del made["spec"]["template"]["metadata"]["annotations"]
    return made


@pytest.mark.cluster
async def test_workloads_and_pods_are_found_in_a_cluster(client: Client, namespace: str) -> None:
    await client.create(DEPLOYMENTS, deployment("hard"), namespace)
    await client.create(DEPLOYMENTS, deployment("honoring", nodeTaintsPolicy="Honor"), namespace)
    await client.create(DEPLOYMENTS, deployment("soft", whenUnsatisfiable="ScheduleAnyway"), namespace)
    await client.create(DEPLOYMENTS, deployment("elsewhere", topologyKey=ZONE), namespace)
    await client.create(DEPLOYMENTS, deployment("elected", elected=True), namespace)
    found = await spread_hard(client, {REGION}, [await client.get(NAMESPACES, namespace)])
    mine = {each for each in found if f" {namespace}/" in each.title}
    assert mine == {Spread(f"Deployment {namespace}/hard", (REGION,))}
    labelled = {"metadata": {"name": namespace, "labels": {"multicluster-scheduler": "enabled"}}}
    found = await spread_hard(client, {REGION}, [labelled])
    assert not [each for each in found if f" {namespace}/" in each.title]

    node = f"{namespace}-virtual"
    await client.create(NODES, {"metadata": {"name": node}})
    try:
        await client.create(PODS, manifests.pod("by-hand", elect=None, nodeName=node), namespace)
        assert await misplaced(client, [node]) == (f"{namespace}/by-hand",)
        await client.delete(PODS, "by-hand", namespace, grace=0)
        assert await misplaced(client, [node]) == ()
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(NODES, node)
