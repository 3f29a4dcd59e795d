"""Changes of a running proxy pod are copied to its delegate: one real API server is source and target."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, EVENTS, NODES, PODS
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.kube.errors import Forbidden, Invalid, NotFound
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.pods.live_changes.controller import LiveChanges
from agent.scheduler.controller import ProxyScheduler
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import chaperons, connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

P = names.PREFIX
ALL = (Chaperon, Feedback, ProxyScheduler, LiveChanges)
IDLE_SECONDS = 2.0
RESOURCES = {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"cpu": "20m", "memory": "16Mi"}}


@contextlib.asynccontextmanager
async def summary(client: Client, **annotations: str) -> AsyncIterator[None]:
    """Create a ClusterSummary with these annotations, which publishes the features of the target's agent."""
    with contextlib.suppress(NotFound):
        await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    head = {"apiVersion": CLUSTER_SUMMARIES.api_version, "kind": CLUSTER_SUMMARIES.name}
    metadata = {"name": names.SUMMARY_NAME, "annotations": annotations}
    await client.create(CLUSTER_SUMMARIES, head | {"metadata": metadata})
    try:
        yield
    finally:
        await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)


class Pair:
    """A running proxy pod, and its delegate."""

    def __init__(self, client: Client, namespace: str, delegate: str) -> None:
        self.client, self.namespace, self.name = client, namespace, delegate

    async def change(self, patch: Raw, *, sub: str | None = None) -> None:
        """Patch the pod, as kubectl does."""
        await self.client.patch(PODS, "web", patch, self.namespace, sub=sub, style="strategic")

    async def proxy(self) -> Raw:
        return await self.client.get(PODS, "web", self.namespace)

    async def delegate(self) -> Raw:
        return await self.client.get(PODS, self.name, self.namespace)

    async def becomes(self, wanted: Callable[[Raw], bool]) -> None:
        """Wait until the delegate is as wanted."""

        async def probe() -> bool:
            return wanted(await self.delegate())

        await until(probe)

    async def says_that_it_can_be_resized(self) -> None:
        """Give the node capacity and the running container resources, which API servers require before they
        resize a pod. Kubelets report the latter, fake nodes do not."""
        size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        node = (await self.proxy())["spec"]["nodeName"]
        await self.client.patch(NODES, node, {"status": {"capacity": size, "allocatable": size}}, sub="status")
        (status,) = (await self.delegate())["status"]["containerStatuses"]
        patch = {"status": {"containerStatuses": [status | {"resources": RESOURCES}]}}
        await self.client.patch(PODS, self.name, patch, self.namespace, sub="status", style="strategic")

        async def home() -> bool:
            return "resources" in (await self.proxy())["status"]["containerStatuses"][0]

        await until(home)

    async def comes_to_rest(self) -> None:
        """Wait until no object is written for some seconds: two quarrelling writers would never stop."""

        async def probe() -> bool:
            before = await self._versions()
            await asyncio.sleep(IDLE_SECONDS)
            return await self._versions() == before

        await until(probe)

    async def _versions(self) -> list[str]:
        (chaperon,) = await chaperons(self.client, self.namespace)
        return [each["metadata"]["resourceVersion"] for each in (chaperon, await self.proxy(), await self.delegate())]


@contextlib.asynccontextmanager
async def pair(
    cluster: Cluster, client: Client, namespace: str, version: str = "0.1.0", **spec: Any
) -> AsyncIterator[Pair]:
    """Run a pair in a target whose agent publishes this version; empty publishes none."""
    told = {names.ANNOTATION_AGENT_VERSION: version} if version else {}
    async with (
        summary(client, **told),
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, me=None) as targets,
    ):
        container = {"name": "main", "image": "busybox:1", "resources": RESOURCES}
        pod = elected("web", namespace, containers=[container], **spec)
        pod["metadata"]["annotations"]["team"] = "x"
        await create(client, pod, [*targets.values()])
        await pod_where(client, namespace, "web", phase="Running", node=targets["me"].node_name)
        (chaperon,) = await chaperons(client, namespace)
        yield Pair(client, namespace, chaperon["metadata"]["name"])
        assert isinstance(deps, Deps)


def main(pod: Raw) -> Raw:
    (container,) = pod["spec"]["containers"]
    return dict(container)


def debuggers(pod: Raw) -> list[Raw]:
    return pod["spec"].get("ephemeralContainers") or []


async def test_labels_and_annotations_follow_and_are_taken_back(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with pair(cluster, client, namespace) as both:
        await both.change({"metadata": {"labels": {"tier": "a"}, "annotations": {"note": "1", "team": "y"}}})
        await both.becomes(lambda pod: pod["metadata"]["labels"].get(P + "tier") == "a")
        await both.becomes(lambda pod: pod["metadata"]["annotations"].get("note") == "1")
        await both.becomes(lambda pod: pod["metadata"]["annotations"].get("team") == "y")
        await both.comes_to_rest()
        await both.change({"metadata": {"labels": {"tier": None}, "annotations": {"note": None, "team": "x"}}})
        await both.becomes(lambda pod: P + "tier" not in pod["metadata"]["labels"])
        await both.becomes(lambda pod: "note" not in pod["metadata"]["annotations"])
        await both.becomes(lambda pod: pod["metadata"]["annotations"].get("team") == "x")
        await both.comes_to_rest()
        annotations = (await both.proxy())["metadata"]["annotations"]
        assert "note" not in annotations
        assert annotations["team"] == "x"


async def test_an_image_follows_and_is_taken_back(cluster: Cluster, client: Client, namespace: str) -> None:
    async with pair(cluster, client, namespace) as both:
        for image in ("busybox:2", "busybox:1"):
            await both.change({"spec": {"containers": [{"name": "main", "image": image}]}})
            await both.becomes(lambda pod, image=image: main(pod)["image"] == image)  # type: ignore[misc]
        await both.comes_to_rest()


async def test_a_resize_follows_and_is_taken_back(cluster: Cluster, client: Client, namespace: str) -> None:
    async with pair(cluster, client, namespace) as both:
        await both.says_that_it_can_be_resized()
        larger = {"requests": {"cpu": "15m", "memory": "8Mi"}, "limits": {"cpu": "30m", "memory": "16Mi"}}
        for resources in (larger, RESOURCES):
            containers = [{"name": "main", "resources": resources}]
            await both.change({"spec": {"containers": containers}}, sub="resize")
            await both.becomes(lambda pod, wanted=resources: main(pod)["resources"] == wanted)  # type: ignore[misc]
        await both.comes_to_rest()


async def test_a_resize_of_the_whole_pod_follows(cluster: Cluster, client: Client, namespace: str) -> None:
    async with pair(cluster, client, namespace, resources=RESOURCES) as both:
        await both.says_that_it_can_be_resized()
        for pod in (await both.proxy(), await both.delegate()):
            features = {"status": {"declaredFeatures": ["InPlacePodLevelResourcesVerticalScaling"]}}
            await client.patch(NODES, pod["spec"]["nodeName"], features, sub="status")
        larger = {"requests": {"cpu": "15m", "memory": "8Mi"}, "limits": {"cpu": "30m", "memory": "16Mi"}}

        async def resized() -> bool:
            # The admission plugin reads a cache of nodes, which may not have the patch yet.
            with contextlib.suppress(Forbidden, Invalid):
                await both.change({"spec": {"resources": larger}}, sub="resize")
                return True
            return False

        await until(resized)
        await both.becomes(lambda pod: pod["spec"]["resources"] == larger)
        await both.comes_to_rest()


async def test_an_added_toleration_and_a_deadline_follow(cluster: Cluster, client: Client, namespace: str) -> None:
    spot = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    async with pair(cluster, client, namespace) as both:
        before = (await both.proxy())["spec"]["tolerations"]
        await both.change({"spec": {"tolerations": [*before, spot], "activeDeadlineSeconds": 3600}})
        await both.becomes(lambda pod: spot in pod["spec"]["tolerations"])
        await both.becomes(lambda pod: pod["spec"].get("activeDeadlineSeconds") == 3600)
        await both.comes_to_rest()
        keys = [each.get("key") for each in (await both.delegate())["spec"]["tolerations"]]
        assert names.PROVIDER_KEY not in keys


async def test_a_container_to_debug_it_with_follows_and_its_status_comes_home(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with pair(cluster, client, namespace) as both:
        for name in ("one", "two"):
            entry = {"name": name, "image": "busybox:1", "targetContainerName": "main"}
            await both.change({"spec": {"ephemeralContainers": [entry]}}, sub="ephemeralcontainers")
        await both.becomes(lambda pod: {each["name"] for each in debuggers(pod)} == {"one", "two"})
        statuses = [
            {"name": "one", "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": {"running": {}}}
        ]
        patch = {"status": {"ephemeralContainerStatuses": statuses}}
        await client.patch(PODS, both.name, patch, namespace, sub="status")

        async def home() -> bool:
            found = (await both.proxy())["status"].get("ephemeralContainerStatuses") or ()
            return ["running" in each["state"] for each in found] == [True]

        await until(home)
        await both.comes_to_rest()


async def test_an_annotation_of_the_target_comes_home_and_stays_beside_changes_here(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with pair(cluster, client, namespace) as both:
        await client.patch(PODS, both.name, {"metadata": {"annotations": {"cni": "10.0.0.1"}}}, namespace)

        async def home() -> bool:
            return bool((await both.proxy())["metadata"]["annotations"].get("cni") == "10.0.0.1")

        await until(home)
        await both.change({"metadata": {"annotations": {"note": "1"}}})
        await both.becomes(lambda pod: pod["metadata"]["annotations"].get("note") == "1")
        await both.comes_to_rest()
        assert await home()
        assert (await both.delegate())["metadata"]["annotations"]["cni"] == "10.0.0.1"


async def test_a_change_that_the_target_refuses_is_told_on_the_pod_and_the_next_one_follows(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with pair(cluster, client, namespace) as both:
        # Twice as much, plus the record of the change, exceeds the size limit of a chaperon's annotations.
        await both.change({"metadata": {"annotations": {"note": "x" * 150_000}}})

        async def told() -> bool:
            about = "involvedObject.kind=Pod,involvedObject.name=web,reason=FailedUpdate"
            events = await client.list(EVENTS, namespace, fields=about)
            return any("me: what was changed does not reach the delegate" in event["message"] for event in events)

        await until(told)
        await both.change({"metadata": {"annotations": {"note": "short"}}})
        await both.becomes(lambda pod: pod["metadata"]["annotations"].get("note") == "short")


async def test_a_target_whose_agent_tells_no_version_is_told_nothing(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with pair(cluster, client, namespace, version="") as both:
        await both.change({"metadata": {"labels": {"tier": "a"}, "annotations": {"note": "1"}}})
        await both.comes_to_rest()
        (chaperon,) = await client.list(CHAPERONS, namespace)
        assert names.ANNOTATION_LIVE_CHANGES not in chaperon["metadata"]["annotations"]
        assert P + "tier" not in (await both.delegate())["metadata"]["labels"]
        assert (await both.proxy())["metadata"]["annotations"]["note"] == "1"
