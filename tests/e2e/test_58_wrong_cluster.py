"""Promise 58: a kubeconfig that points to another cluster costs no pod and no volume until a person accepts it.

With the right kubeconfig the Target continues as before."""

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CHAPERONS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS, TARGETS
from tests.e2e import manifests
from tests.e2e.claims import volumes
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.test_15_credentials import rotate
from tests.waiting import empty

pytestmark = pytest.mark.full("Controller tests cover the same hold; this one waits for several probes.")

CLAIMS = PERSISTENT_VOLUME_CLAIMS
REPLICAS = 5
DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


async def uid_of(fleet: Fleet, cluster: str) -> str:
    return str((await fleet.clients[cluster].get(NAMESPACES, "kube-system"))["metadata"]["uid"])


async def everything(fleet: Fleet, namespace: str) -> dict[str, tuple[str, str]]:
    """Return cluster and delegate UID by the UID of each running proxy pod."""
    await fleet.running(namespace, "web", REPLICAS)
    found = await fleet.delegates(namespace)
    return {uid: (cluster, delegate["metadata"]["uid"]) for uid, (cluster, delegate) in found.items()}


async def is_wrong(fleet: Fleet, namespace: str) -> bool:
    return condition(await fleet.source.get(TARGETS, "us", namespace), "Ready").get("reason") == "WrongCluster"


async def waits(fleet: Fleet, namespace: str) -> bool:
    """Return True if pod `late` reports that it waits for the target's own cluster."""
    pods = await fleet.pods(namespace, "late")
    told = [find_condition(pod["status"].get("conditions"), "PodScheduled") or {} for pod in pods]
    return bool(told) and all("the kubeconfig leads to cluster" in each.get("message", "") for each in told)


async def test_pods_and_volumes_outlast_the_kubeconfig_of_another_cluster_until_a_person_accepts_it(
    fleet: Fleet,
) -> None:
    async with fleet.namespace(targets=("us",)) as namespace, volumes(fleet, namespace):
        us, eu = await fleet.kubeconfig(namespace, "us"), await fleet.kubeconfig(namespace, "eu")
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "data"}, "spec": {**spec, "storageClassName": namespace}}
        await fleet.source.create(CLAIMS, claim, namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", REPLICAS, volumes=DATA), namespace)
        before = await everything(fleet, namespace)
        data = await fleet.clients["us"].get(CLAIMS, "data", namespace)

        await rotate(fleet, namespace, "us", eu)
        await fleet.until("the other cluster is noticed", lambda: is_wrong(fleet, namespace), about=namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("late", 1), namespace)
        await fleet.until("new pods wait", lambda: waits(fleet, namespace), about=namespace)
        assert await everything(fleet, namespace) == before
        for kind in (CHAPERONS, PODS, CLAIMS):
            assert await empty(fleet.clients["eu"].list(kind, namespace))
        found = (await fleet.source.get(TARGETS, "us", namespace))["status"]
        assert found["clusterUID"] == await uid_of(fleet, "us")

        await rotate(fleet, namespace, "us", us)
        await fleet.ready(namespace, "us")
        await fleet.running(namespace, "late", 1)
        left = await everything(fleet, namespace)
        assert before.items() <= left.items()
        again = await fleet.clients["us"].get(CLAIMS, "data", namespace)
        assert again["metadata"]["uid"] == data["metadata"]["uid"]
        fleet.census.check(namespace, at_most=REPLICAS + 1)

        # The user declares the old cluster lost.
        await rotate(fleet, namespace, "us", eu)
        await fleet.until("the other cluster is noticed again", lambda: is_wrong(fleet, namespace), about=namespace)
        annotations = {names.SHORT_PREFIX + names.ACCEPT_CLUSTER: await uid_of(fleet, "eu")}
        await fleet.source.patch(TARGETS, "us", {"metadata": {"annotations": annotations}}, namespace)

        async def replaced() -> bool:
            now = {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, "web")}
            return len(now) == REPLICAS and not now & before.keys()

        await fleet.until("all pods are new ones", replaced, about=namespace)
        after = await everything(fleet, namespace)
        assert {cluster for uid, (cluster, _) in after.items() if uid not in left} == {"eu"}
        # Only an administrator of the old cluster ends its pods.
        assert left.items() <= after.items()
        for chaperon in await fleet.clients["us"].list(CHAPERONS, namespace):
            await fleet.clients["us"].delete(CHAPERONS, chaperon["metadata"]["name"], namespace)
        await fleet.clients["us"].delete(CLAIMS, "data", namespace)
