"""The proxy pods of a cluster and the writers of their finalizers, on a real API server."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import PODS
from agent.clusters.cluster import Cluster
from agent.clusters.stores.proxies import ProxyPods
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import Conflict
from agent.kube.store import Object
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.e2e import manifests
from tests.waiting import until

pytestmark = pytest.mark.cluster

OTHER = "example.com/hold"


@pytest_asyncio.fixture
async def proxies(cluster: SandboxCluster, client: Client) -> AsyncIterator[ProxyPods]:
    """The proxy pods, closed before the client to give the event loop time."""
    local = Cluster(load(str(cluster.kubeconfig)), "local")
    try:
        yield ProxyPods(local)
    finally:
        await local.close()


async def created(proxies: ProxyPods, client: Client, namespace: str) -> Object:
    """Create a plain pod, and a proxy pod with finalizers of two targets and of another owner; return the
    latter as cached."""
    await client.create(PODS, manifests.pod("plain", elect=None), namespace)
    pod = manifests.pod("web", elect=None, schedulerName=names.SCHEDULER_PROXY)
    finalizers = [names.finalizer(namespace, "eu"), OTHER, names.finalizer(namespace, "us")]
    await client.create(PODS, pod | {"metadata": pod["metadata"] | {"finalizers": finalizers}}, namespace)
    await until(lambda: proxies.informer.store.get((namespace, "web")))
    found = proxies.informer.store.get((namespace, "web"))
    assert found is not None
    assert proxies.informer.store.get((namespace, "plain")) is None
    return found


async def test_a_release_is_one_patch_that_a_change_in_between_makes_fail(
    proxies: ProxyPods, client: Client, namespace: str
) -> None:
    pod = await created(proxies, client, namespace)
    eu, us = names.finalizer(namespace, "eu"), names.finalizer(namespace, "us")
    assert [each.key for each in proxies.held_for(eu)] == [pod.key]
    assert proxies.count_held_for(us) == 1
    after = await proxies.release(pod.key, pod.uid, pod.version, [OTHER, us], {"phase": "Failed", "reason": "Gone"})
    assert (after.finalizers, after.phase) == ([OTHER, us], "Failed")
    assert (proxies.held_for(eu), proxies.count_held_for(us)) == ([], 1), "the answer is in the store"
    with pytest.raises(Conflict):
        await proxies.release(pod.key, pod.uid, pod.version, [])
    after = await proxies.release(pod.key, pod.uid, after.version, [])
    assert after.finalizers == []


async def test_what_comes_home_is_in_the_store_at_once(proxies: ProxyPods, client: Client, namespace: str) -> None:
    pod = await created(proxies, client, namespace)
    home = {"metadata": {"uid": pod.uid, "finalizers": None}, "status": {"phase": "Running"}}
    after = await proxies.bring_home(pod.key, home, status=True)
    assert (after.finalizers, after.phase) == ([], "Running")
    stored = proxies.informer.store.get(pod.key)
    assert stored is not None
    assert (stored.finalizers, stored.phase) == ([], "Running")
    node = f"admiralty-{namespace}"
    await client.create(
        PODS,
        {"metadata": {"name": "web"}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}},
        namespace,
        sub="binding",
    )
    await until(lambda: [each.key for each in proxies.bound_to(node)] == [pod.key])
