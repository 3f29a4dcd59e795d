"""Initial objects of every cluster of a sandbox, on a real API server."""

import pytest

from agent.api.kinds import CLUSTER_ROLES, CRDS, NODES, TARGETS
from agent.kube.client import Client
from agent.kube.errors import Invalid

pytestmark = pytest.mark.cluster


async def test_our_crds_are_served_before_anything_else_runs(client: Client, namespace: str) -> None:
    assert len([crd for crd in await client.list(CRDS) if crd["spec"]["group"] == TARGETS.group]) == 6
    assert await client.list(TARGETS, namespace) == []


async def test_a_target_that_is_both_self_and_remote_is_refused(client: Client, namespace: str) -> None:
    spec = {"self": True, "kubeconfigSecret": {"name": "there"}}
    target = {"apiVersion": TARGETS.api_version, "kind": "Target", "metadata": {"name": "t"}, "spec": spec}
    with pytest.raises(Invalid):
        await client.create(TARGETS, target, namespace)


async def test_the_roles_that_sources_are_bound_to_are_there(client: Client) -> None:
    for name in ("multicluster-scheduler-source", "multicluster-scheduler-cluster-summary-viewer"):
        assert (await client.get(CLUSTER_ROLES, name))["rules"]


async def test_fake_nodes_are_ready_and_carry_the_region(client: Client) -> None:
    (node,) = await client.list(NODES, labels="type=kwok")
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "test"
    assert node["status"]["capacity"]["pods"] == "110"
    assert {item["status"] for item in node["status"]["conditions"] if item["type"] == "Ready"} == {"True"}
