"""Finalizers of proxy pods on a real API server."""

from typing import Any

from agent.api.kinds import PODS, TARGETS
from agent.api.names import FINALIZER_V010, finalizer
from agent.kube.client import Client
from agent.pods.orphan_finalizers import OrphanFinalizersController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.waiting import until


def proxy(name: str, namespace: str, *finalizers: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers)},
        "spec": {
            "schedulerName": "admiralty-proxy",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "busybox"}],
        },
    }


def target(name: str, namespace: str, *finalizers: str) -> dict[str, Any]:
    return {
        "apiVersion": TARGETS.api_version,
        "kind": "Target",
        "metadata": {"name": name, "namespace": namespace, "finalizers": list(finalizers)},
        "spec": {"kubeconfigSecret": {"name": "none"}},
    }


async def test_only_finalizers_that_belong_to_no_target_are_removed(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(TARGETS, target("c1", namespace))
    ours = (finalizer(namespace, "c1"), finalizer(namespace, "c2"))
    await client.create(PODS, proxy("mixed", namespace, *ours, FINALIZER_V010, "example.com/other"))
    await client.create(PODS, {**proxy("alien", namespace, ours[1]), "spec": alien_spec()})
    await client.create(PODS, proxy("old", namespace, FINALIZER_V010))
    async with running(cluster, OrphanFinalizersController):
        await until(lambda: carries(client, namespace, [ours[0], "example.com/other"]))
        old = await client.get(PODS, "old", namespace)
        assert old["metadata"]["finalizers"] == [FINALIZER_V010], "c1 may have a delegate of it"
        await client.delete(TARGETS, "c1", namespace)
        await until(lambda: carries(client, namespace, ["example.com/other"]))
        await until(lambda: carries(client, namespace, None, "old"))
        assert (await client.get(PODS, "alien", namespace))["metadata"]["finalizers"] == [ours[1]]
    for name in ("mixed", "alien"):
        await client.patch(PODS, name, {"metadata": {"finalizers": None}}, namespace)


def alien_spec() -> dict[str, Any]:
    return {"schedulerName": "elsewhere", "containers": [{"name": "c", "image": "busybox"}]}


async def carries(client: Client, namespace: str, want: list[str] | None, name: str = "mixed") -> bool:
    return bool((await client.get(PODS, name, namespace))["metadata"].get("finalizers") == want)


async def test_a_target_being_removed_gives_up_its_pods_when_it_cannot_be_reached(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(TARGETS, target("c1", namespace, "multicluster/drain"))
    await client.create(PODS, proxy("mixed", namespace, finalizer(namespace, "c1"), "example.com/other"))
    async with running(cluster, OrphanFinalizersController, release_after=2.0) as deps:
        await client.delete(TARGETS, "c1", namespace)
        deleted = await client.get(TARGETS, "c1", namespace)
        await until(lambda: carries(client, namespace, ["example.com/other"]))
        since = deleted["metadata"]["deletionTimestamp"]
        assert since <= deps.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    await client.patch(PODS, "mixed", {"metadata": {"finalizers": None}}, namespace)
    await client.patch(TARGETS, "c1", {"metadata": {"finalizers": None}}, namespace)
