"""Promise 4: scaling, rolling updates and deletions work as in one cluster, and no object is left over."""

from typing import Any

import pytest

from agent.api.kinds import CLUSTER_SOURCES, CLUSTER_TARGETS, NAMESPACES, NODES, PODS
from agent.api.names import virtual_node
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, on_virtual_node
from tests.e2e.manifests import DAEMONSETS, DEPLOYMENTS, STATEFULSETS

Raw = dict[str, Any]


async def emptied(fleet: Fleet, namespace: str) -> None:
    """Wait until no cluster has pods or chaperons of the namespace."""
    await fleet.until("both sides are empty", lambda: fleet.is_empty(namespace), about=namespace)


async def places(fleet: Fleet, namespace: str, app: str) -> dict[str, str]:
    """Return the delegate's cluster for each pod of an app that is not terminating."""
    delegates = await fleet.delegates(namespace)
    uids = [pod["metadata"]["uid"] for pod in await fleet.pods(namespace, app)]
    return {uid: delegates[uid][0] for uid in uids if uid in delegates}


async def test_scaling_up_and_down(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 4), namespace)
    first = {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", 4)}
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 12}}, namespace)
    assert first <= {pod["metadata"]["uid"] for pod in await fleet.running(namespace, "web", 12)}
    assert set((await places(fleet, namespace, "web")).values()) == {"us", "eu"}
    fleet.census.check(namespace, at_most=12)
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3}}, namespace)
    await fleet.running(namespace, "web", 3)
    await fleet.agree(namespace)
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, namespace)
    await emptied(fleet, namespace)


@pytest.mark.full("A variant of scaling and of deleting a pod.")
async def test_a_rolling_update_of_the_region_moves_all_pods(fleet: Fleet, namespace: str) -> None:
    spec = {"nodeSelector": {manifests.REGION: "us"}}
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 6, **spec), namespace)
    await fleet.running(namespace, "web", 6)
    assert set((await places(fleet, namespace, "web")).values()) == {"us"}
    moved = {"spec": {"template": {"spec": {"nodeSelector": {manifests.REGION: "eu"}}}}}
    await fleet.source.patch(DEPLOYMENTS, "web", moved, namespace)

    async def all_moved() -> bool:
        found = await places(fleet, namespace, "web")
        return sorted(found.values()) == ["eu"] * 6 and len(await fleet.delegates(namespace)) == 6

    await fleet.until("all pods have moved to eu", all_moved, about=namespace)
    await fleet.agree(namespace)


@pytest.mark.parametrize("flags", [(), ("--grace-period=30",), ("--grace-period=0", "--force"), ("--now",)], ids=str)
async def test_kubectl_delete_pod_ends_the_delegate(fleet: Fleet, namespace: str, flags: tuple[str, ...]) -> None:
    await fleet.source.create(PODS, manifests.pod("a"), namespace)
    await fleet.running(namespace, "a", 1)
    await fleet.kubectl("cd", "delete", "pod", "a", f"--namespace={namespace}", "--timeout=30s", *flags)
    await emptied(fleet, namespace)


@pytest.mark.full("A variant of scaling and of deleting a pod.")
async def test_a_pod_deleted_before_it_has_a_place_goes_at_once(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, manifests.pod("a", nodeSelector={manifests.REGION: "mars"}), namespace)
    await fleet.source.create(PODS, manifests.pod("b"), namespace)
    await fleet.source.delete(PODS, "b", namespace)

    async def explained() -> bool:
        pod = await fleet.source.get(PODS, "a", namespace)
        return any(each["reason"] == "Unschedulable" for each in pod["status"].get("conditions") or ())

    await fleet.until("the pod says why it waits", explained, about=namespace)
    await fleet.source.delete(PODS, "a", namespace)
    await emptied(fleet, namespace)


@pytest.mark.full("A variant of scaling and of deleting a pod.")
@pytest.mark.parametrize("cascade", ["foreground", "background"])
async def test_kubectl_delete_deployment(fleet: Fleet, namespace: str, cascade: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 6), namespace)
    await fleet.running(namespace, "web", 6)
    flags = (f"--namespace={namespace}", f"--cascade={cascade}", "--timeout=60s")
    await fleet.kubectl("cd", "delete", "deployment", "web", *flags)
    await fleet.gone(DEPLOYMENTS, "web", namespace)
    await emptied(fleet, namespace)


@pytest.mark.full("A variant of scaling and of deleting a pod.")
async def test_a_deleted_pod_of_a_stateful_set_comes_back_under_its_name(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(STATEFULSETS, manifests.stateful_set("db", 3), namespace)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await fleet.running(namespace, "db", 3)}
    await fleet.source.delete(PODS, "db-1", namespace)

    async def back() -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in await fleet.running(namespace, "db", 3)}
        return pods.keys() == before.keys() and pods["db-1"]["metadata"]["uid"] != before["db-1"]

    await fleet.until("db-1 is back", back, about=namespace)
    await fleet.agree(namespace)
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "db")}
    assert (after["db-0"], after["db-2"]) == (before["db-0"], before["db-2"])


@pytest.mark.full("A variant of scaling and of deleting a pod.")
async def test_pods_of_a_daemon_set_on_virtual_nodes_end(fleet: Fleet, namespace: str) -> None:
    manifest = manifests.workload(DAEMONSETS, "agent", {"tolerations": [{"operator": "Exists"}]})
    del manifest["spec"]["template"]["metadata"]["annotations"]
    await fleet.source.create(DAEMONSETS, manifest, namespace)

    async def on_virtual_nodes() -> bool:
        pods = await fleet.pods(namespace, "agent")
        nodes = {pod["spec"].get("nodeName") for pod in pods}
        return {virtual_node(namespace, "us"), virtual_node(namespace, "eu")} <= nodes

    await fleet.until("the DaemonSet has pods on the virtual nodes", on_virtual_nodes, about=namespace)
    assert await fleet.delegates(namespace) == {}
    flags = (f"--namespace={namespace}", "--cascade=foreground", "--timeout=120s")
    # Under load this once took more than a minute.
    await fleet.kubectl("cd", "delete", "daemonset", "agent", *flags)
    assert await fleet.source.list(PODS, namespace) == []


@pytest.mark.full("Controller tests cover the end of a namespace.")
async def test_a_namespace_goes_with_its_targets_and_pods(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 6), namespace)
    await fleet.running(namespace, "web", 6)
    await fleet.source.delete(NAMESPACES, namespace)
    await fleet.gone(NAMESPACES, namespace)
    await emptied(fleet, namespace)
    await fleet.gone(NODES, virtual_node(namespace, "us"))
    await fleet.gone(NODES, virtual_node(namespace, "eu"))


@pytest.mark.full("Controller tests cover the end of a namespace.")
@pytest.mark.seldom
async def test_a_namespace_goes_with_its_pods_in_a_cluster_target(fleet: Fleet) -> None:
    async with fleet.namespace(targets=()) as home, fleet.namespace(targets=()) as namespace:
        await fleet.join_everywhere(home, "us", "all")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 6), namespace)
        (proxy, *_) = await fleet.running(namespace, "web", 6)
        assert on_virtual_node(proxy)
        assert proxy["spec"]["nodeName"] == "admiralty-all"
        await fleet.source.delete(NAMESPACES, namespace)
        await fleet.gone(NAMESPACES, namespace)
        await emptied(fleet, namespace)
        await fleet.source.delete(CLUSTER_TARGETS, "all")
        await fleet.gone(CLUSTER_TARGETS, "all")
        await fleet.gone(NODES, "admiralty-all")
        await fleet.clients["us"].delete(CLUSTER_SOURCES, "all")
