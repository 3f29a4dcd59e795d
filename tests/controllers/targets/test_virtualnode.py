"""Virtual nodes on a real API server, which is both source and target."""

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.api.kinds import CLUSTER_SUMMARIES, DEPLOYMENTS, EVENTS, LEASES, NODES, PODS, TARGETS
from agent.api.names import (
    ANNOTATION_APPLIED_LABELS,
    LABEL_TARGET_NAME,
    LABEL_TARGET_NAMESPACE,
    PROVIDER_KEY,
    PROVIDER_VALUE,
    virtual_node,
)
from agent.base.metrics import REGISTRY
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.targets.summary import SummaryController
from agent.targets.target import TargetController
from agent.targets.virtual_node import (
    ForeignPodController,
    NodeLeaseController,
    UnplacedPodController,
    VirtualNodeController,
)
from agent.targets.virtual_node import controller as virtualnode
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, kubeconfig, rewrite, tear_away
from tests.e2e.manifests import DAEMONSETS, workload
from tests.waiting import gone, until


def leases(deps: Deps) -> NodeLeaseController:
    return NodeLeaseController(deps.local, deps.clock, deps.settings)


CONTROLLERS = (TargetController, VirtualNodeController, leases, ForeignPodController)
CLOSED = "https://127.0.0.1:1"
Node = dict[str, Any]


@pytest.fixture(autouse=True)
async def _clean(client: Client, namespace: str) -> AsyncIterator[None]:
    yield
    await tear_away(client, namespace)


async def node_where(client: Client, name: str, holds: Callable[[Node], object]) -> Node:
    """Return the node, once it has this property."""

    async def probe() -> Node | None:
        node = await client.get(NODES, name)
        return node if holds(node) else None

    node = await until(probe)
    return node


async def only_renewed(client: Client, name: str) -> bool:
    """Return whether the node is unchanged while its lease is renewed."""
    before = (await client.get(NODES, name))["metadata"]["resourceVersion"]
    lease = await client.get(LEASES, name, "kube-node-lease")
    await until(lambda: renewed(client, name, lease["spec"]["renewTime"]))
    return bool((await client.get(NODES, name))["metadata"]["resourceVersion"] == before)


def taints(node: Node) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints") or ()}


def reachable(node: Node) -> str:
    return str((find_condition(node["status"].get("conditions"), "TargetReachable") or {}).get("status"))


def usable(node: Node) -> bool:
    return taints(node) == {"virtual-kubelet.io/provider"} and reachable(node) == "True"


def pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "busybox"}], **spec},
    }


async def test_a_target_gets_a_node_with_what_its_cluster_has(cluster: Cluster, client: Client, namespace: str) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS, SummaryController, node_lease_renew=0.5):
        await add(client, namespace, "c1", kubeconfig(cluster))
        node = await node_where(client, name, lambda node: usable(node) and node["status"].get("capacity"))
        assert node["status"]["addresses"] == [{"type": "InternalIP", "address": "10.1.2.3"}]
        assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
        assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")
        assert node["metadata"]["labels"]["multicluster.admiralty.io/target-name"] == "c1"

        lease = await until(lambda: client.get(LEASES, name, "kube-node-lease"))
        assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        # Renewals become the only writes.
        await until(lambda: only_renewed(client, name))

        changes = {
            "metadata": {"labels": {"team": "x", "kubernetes.io/role": "other"}},
            "spec": {"unschedulable": True},
        }
        await client.patch(NODES, name, changes)
        node = await node_where(
            client, name, lambda node: node["metadata"]["labels"]["kubernetes.io/role"] == "cluster"
        )
        assert node["metadata"]["labels"]["team"] == "x"
        assert node["spec"]["unschedulable"]

        await client.patch(NODES, name, {"metadata": {"labels": {"virtual-kubelet.io/provider": None}}})
        await node_where(client, name, lambda node: "virtual-kubelet.io/provider" in node["metadata"]["labels"])

        await client.delete(NODES, name)
        again = await node_where(client, name, usable)
        assert again["metadata"]["uid"] != node["metadata"]["uid"]
        await until(lambda: owned(client, name, again["metadata"]["uid"]))


def role(node: Node) -> object:
    return node["metadata"]["labels"].get("kubernetes.io/role")


async def renewed(client: Client, name: str, before: str) -> bool:
    return bool((await client.get(LEASES, name, "kube-node-lease"))["spec"]["renewTime"] > before)


async def owned(client: Client, name: str, uid: str) -> bool:
    lease = await client.get(LEASES, name, "kube-node-lease")
    return bool(lease["metadata"]["ownerReferences"][0]["uid"] == uid)


async def test_a_lost_target_taints_its_node_until_it_is_back(cluster: Cluster, client: Client, namespace: str) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, usable)
        await rewrite(client, namespace, "c1", kubeconfig(cluster, server=CLOSED))
        node = await node_where(client, name, lambda node: reachable(node) == "False")
        assert "multicluster/unreachable" in taints(node)
        assert (find_condition(node["status"]["conditions"], "Ready") or {})["status"] == "True"
        await rewrite(client, namespace, "c1", "not a kubeconfig")
        await node_where(client, name, lambda node: reason(node) == "NotConnected")
        await rewrite(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, usable)


def reason(node: Node) -> str:
    return str((find_condition(node["status"].get("conditions"), "TargetReachable") or {}).get("reason"))


async def test_a_restarted_agent_leaves_nodes_alone(cluster: Cluster, client: Client, namespace: str) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        before = await node_where(client, name, usable)
    async with running(cluster, *CONTROLLERS) as deps:
        await until(lambda: ready(deps, (namespace, "c1")))
        await add(client, namespace, "c2", kubeconfig(cluster))
        await node_where(client, virtual_node(namespace, "c2"), usable)
        after = await client.get(NODES, name)
        assert stable(after) == stable(before)


def stable(node: Node) -> Node:
    """Return the node without the fields that the node controller still has to write."""
    annotations = {key: value for key, value in node["metadata"]["annotations"].items() if "ttl" not in key}
    metadata = {**node["metadata"], "annotations": annotations, "resourceVersion": "", "managedFields": ours(node)}
    return {**node, "metadata": metadata}


def ours(node: Node) -> list[Any]:
    """Return our managed fields without the taints, whose ownership changes when the node controller removes
    its own."""
    found = [entry for entry in node["metadata"]["managedFields"] if entry["manager"] == "flotilla"]
    for entry in found:
        entry["fieldsV1"].pop("f:spec", None)
    return found


async def ready(deps: Deps, key: tuple[str, str]) -> bool:
    found = deps.targets.get(key)
    return found is not None and found.ready


async def test_a_node_goes_after_its_target_and_its_pods(cluster: Cluster, client: Client, namespace: str) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS, OrphanFinalizersController):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, usable)
        await client.create(PODS, pod("stray", name, schedulerName="other"), namespace)
    # A user removes the finalizers while no agent runs.
    await client.patch(TARGETS, "c1", {"metadata": {"finalizers": None}}, namespace)
    await client.delete(TARGETS, "c1", namespace)
    async with running(cluster, *CONTROLLERS, OrphanFinalizersController):
        await gone(lambda: client.get(PODS, "stray", namespace))
        await gone(lambda: client.get(NODES, name))


async def test_a_pod_that_a_scheduler_has_bound_there_is_moved_off_and_one_that_its_user_put_there_is_told_of(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    name = virtual_node(namespace, "c1")
    spec = {"schedulerName": "another", "tolerations": [{"operator": "Exists"}]}

    async def told(pod: str) -> bool:
        events = await client.list(EVENTS, namespace, fields=f"involvedObject.name={pod},reason=VirtualNode")
        return any(name in each["message"] for each in events)

    async with running(cluster, *CONTROLLERS, SummaryController):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, lambda node: node["status"].get("allocatable", {}).get("pods") == "0")
        await client.create(PODS, pod("by-hand", name, schedulerName="another"), namespace)
        await client.create(DEPLOYMENTS, workload(DEPLOYMENTS, "everywhere", spec, replicas=1), namespace)
        (first,) = await until(lambda: client.list(PODS, namespace, labels="app=everywhere"))
        target = {"apiVersion": "v1", "kind": "Node", "name": name}
        binding = {"metadata": {"name": first["metadata"]["name"]}, "target": target}
        await client.create_raw(PODS, binding, namespace, sub="binding")
        await gone(lambda: client.get(PODS, first["metadata"]["name"], namespace))
        (second,) = await until(lambda: client.list(PODS, namespace, labels="app=everywhere"))
        assert not second["spec"].get("nodeName")
        await until(lambda: told(first["metadata"]["name"]))
        await until(lambda: told("by-hand"))
        assert await client.get(PODS, "by-hand", namespace)


async def test_a_node_goes_although_a_daemon_set_makes_its_pod_there_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS, SummaryController, UnplacedPodController, OrphanFinalizersController):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, lambda node: usable(node) and node["status"].get("allocatable"))
        spec = {"nodeSelector": {LABEL_TARGET_NAMESPACE: namespace}, "tolerations": [{"operator": "Exists"}]}
        await client.create(DAEMONSETS, workload(DAEMONSETS, "log", spec), namespace)

        async def landed() -> bool:
            return bool(await client.list(PODS, namespace, labels="app=log", fields=f"spec.nodeName={name}"))

        await until(landed)
        await client.delete(TARGETS, "c1", namespace)
        await gone(lambda: client.get(NODES, name))

        async def left() -> bool:
            return not await client.list(PODS, namespace, labels="app=log")

        await until(left)


async def test_a_pod_of_a_daemon_set_that_was_bound_while_its_node_went_goes_too(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS, OrphanFinalizersController):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, usable)
        nowhere = workload(DAEMONSETS, "log", {"nodeSelector": {"nowhere": "true"}})
        owner = await client.create(DAEMONSETS, nowhere, namespace)
        await client.delete(TARGETS, "c1", namespace)
        await gone(lambda: client.get(NODES, name))
        reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": owner["metadata"]["uid"]}
        for pod_name, owners in (("log-1", [{**reference, "controller": True}]), ("bare", [])):
            manifest = pod(pod_name, name, schedulerName="default-scheduler")
            # A DaemonSet releases a pod that its selector does not match.
            manifest["metadata"] |= {"ownerReferences": owners, "labels": {"app": "log"} if owners else {}}
            await client.create(PODS, manifest, namespace)
        await gone(lambda: client.get(PODS, "log-1", namespace))
        assert "deletionTimestamp" not in (await client.get(PODS, "bare", namespace))["metadata"]


async def test_a_node_that_another_agent_has_made_keeps_its_pods_until_its_target_is_applied_again(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = (virtual_node(namespace, name) for name in ("c1", "c2"))
    for node, target, annotations in ((theirs, "c1", {}), (ours, "c2", {ANNOTATION_APPLIED_LABELS: "{}"})):
        labels = {PROVIDER_KEY: PROVIDER_VALUE, LABEL_TARGET_NAMESPACE: namespace, LABEL_TARGET_NAME: target}
        await client.create(NODES, {"metadata": {"name": node, "labels": labels, "annotations": annotations}})
        await client.create(PODS, pod(target, node, schedulerName="other"), namespace)
    async with running(cluster, *CONTROLLERS, OrphanFinalizersController):
        await gone(lambda: client.get(NODES, ours))
        assert "deletionTimestamp" not in (await client.get(PODS, "c1", namespace))["metadata"]
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, theirs, usable)
        assert "deletionTimestamp" not in (await client.get(PODS, "c1", namespace))["metadata"]
    await client.patch(TARGETS, "c1", {"metadata": {"finalizers": None}}, namespace)
    await client.delete(TARGETS, "c1", namespace)
    await client.patch(NODES, theirs, {"metadata": {"annotations": {ANNOTATION_APPLIED_LABELS: None}}})
    monkeypatch.setattr(virtualnode, "ANOTHERS_SECONDS", 1.0)
    async with running(cluster, *CONTROLLERS, OrphanFinalizersController):
        await gone(lambda: client.get(PODS, "c1", namespace))
        await gone(lambda: client.get(NODES, theirs))


async def test_a_terminating_pod_that_is_no_proxy_is_ended(cluster: Cluster, client: Client, namespace: str) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, usable)
        for scheduler in ("default-scheduler", "admiralty-proxy"):
            manifest = pod(scheduler, name, schedulerName=scheduler, terminationGracePeriodSeconds=30)
            await client.create(PODS, manifest, namespace)
            await client.delete(PODS, scheduler, namespace)
        await gone(lambda: client.get(PODS, "default-scheduler", namespace))
        assert await client.get(PODS, "admiralty-proxy", namespace)


@pytest.mark.parametrize(("answers", "phase"), [(True, "Running"), (False, "Pending")], ids=["answered for", "not"])
async def test_of_pods_that_are_no_proxies_those_of_daemon_sets_are_answered_for(
    cluster: Cluster, client: Client, namespace: str, answers: bool, phase: str
) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS, SummaryController, UnplacedPodController, answer_daemon_sets=answers):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, lambda node: usable(node) and node["status"].get("allocatable"))
        spec = {"nodeSelector": {LABEL_TARGET_NAMESPACE: namespace}, "tolerations": [{"operator": "Exists"}]}
        await client.create(DAEMONSETS, workload(DAEMONSETS, "log", spec), namespace)
        await client.create(PODS, pod("bare", name), namespace)

        async def told() -> bool:
            found = await client.list(PODS, namespace, labels="app=log")
            return [(each["spec"].get("nodeName"), each["status"]["phase"]) for each in found] == [(name, phase)]

        await until(told)
        # One controller ends pods in the order of their events.
        await client.create(PODS, pod("last", name), namespace)
        await client.delete(PODS, "last", namespace)
        await gone(lambda: client.get(PODS, "last", namespace))
        assert await told()
        assert (await client.get(PODS, "bare", namespace))["status"]["phase"] == "Pending"


async def test_what_a_daemon_sets_pod_requests_needs_no_room(cluster: Cluster, client: Client, namespace: str) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, *CONTROLLERS, SummaryController, UnplacedPodController):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, lambda node: usable(node) and node["status"].get("allocatable"))
        spec = {"nodeSelector": {LABEL_TARGET_NAMESPACE: namespace}, "tolerations": [{"operator": "Exists"}]}
        large = workload(DAEMONSETS, "log", spec)
        large["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100k"}}
        await client.create(DAEMONSETS, large, namespace)

        async def rolled_out() -> bool:
            status = (await client.get(DAEMONSETS, "log", namespace))["status"]
            return bool(status["desiredNumberScheduled"] == status.get("numberAvailable") == 1)

        await until(rolled_out)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_of_two_replicas_one_renews_a_lease_and_the_other_takes_over(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    name = virtual_node(namespace, "c1")
    async with running(cluster, leases, node_lease_renew=0.5):
        async with running(cluster, *CONTROLLERS, node_lease_renew=0.5):
            await add(client, namespace, "c1", kubeconfig(cluster))
            await node_where(client, name, usable)
            await until(lambda: client.get(LEASES, name, "kube-node-lease"))
            await renewals(client, name, 2)
            before = refused()
            await renewals(client, name, 6)
            # Two writing replicas would cause a conflict every time.
            assert refused() - before < 6
        await renewals(client, name, 2)


async def renewals(client: Client, name: str, count: int) -> None:
    for _ in range(count):
        before = (await client.get(LEASES, name, "kube-node-lease"))["spec"]["renewTime"]
        await until(partial(renewed, client, name, before))


def refused() -> float:
    labels = {"cluster": "local", "method": "PATCH", "resource": "leases", "outcome": "409"}
    return REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0


async def test_huge_pages_of_two_sizes_show_while_a_node_of_this_cluster_has_them(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    name = virtual_node(namespace, "c1")
    pages = {"cpu": "1", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "1Gi"}
    real = {"metadata": {"name": f"{namespace}-real"}, "status": {"capacity": pages, "allocatable": pages}}
    summary = {
        "apiVersion": CLUSTER_SUMMARIES.api_version,
        "kind": CLUSTER_SUMMARIES.name,
        "metadata": {"name": "singleton"},
        "capacity": pages,
        "allocatable": pages,
    }
    with contextlib.suppress(NotFound):
        await client.delete(CLUSTER_SUMMARIES, "singleton")
    await client.create(CLUSTER_SUMMARIES, summary)
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await node_where(client, name, lambda node: node["status"].get("capacity", {}).keys() == {"cpu"})
        await client.create(NODES, real)
        await node_where(client, name, lambda node: node["status"]["allocatable"] == pages | {"pods": "0"})
        await client.delete(NODES, f"{namespace}-real")
        await node_where(client, name, lambda node: node["status"]["allocatable"].keys() == {"cpu", "pods"})
    await client.delete(CLUSTER_SUMMARIES, "singleton")
