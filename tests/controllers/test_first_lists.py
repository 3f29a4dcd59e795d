"""Agents that start while lists fail, in clusters with one pod network: no address of a foreign pod is published."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.api import names
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SUMMARIES,
    CLUSTER_TARGETS,
    ENDPOINT_SLICES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    TARGETS,
    Kind,
)
from agent.api.names import links
from agent.clusters.cluster import Cluster
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import NotFound
from agent.kube.store import Object
from agent.model.endpoints import is_mirror
from agent.model.proxypod import proxy_pod
from agent.pods.feedback.controller import Feedback
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController
from agent.targets.target import TargetController
from agent.targets.virtual_node.controller import VirtualNodeController
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected
from tests.controllers.servicelinks import SHARED, Links
from tests.controllers.services.test_networkdriver import gateway, tell, uid_of
from tests.controllers.starting import running
from tests.controllers.target_links import condition, kubeconfig, secret, target
from tests.kube.relay import Relay
from tests.waiting import until

if TYPE_CHECKING:
    from hack.lab.sandbox import Cluster as SandboxCluster

pytestmark = pytest.mark.cluster

CONTROLLERS = (
    TargetController,
    VirtualNodeController,
    NetworkDriverController,
    EndpointsController,
    GlobalServices,
    Feedback,
)
NETWORK = "10.1.0.0/16"
FAILING_SECONDS = 0.8
"""Seconds during which lists of a kind fail, counted from the first one."""
IN_SOURCE = (
    CLUSTER_SUMMARIES,
    SERVICES,
    ENDPOINT_SLICES,
    TARGETS,
    CLUSTER_TARGETS,
    NODES,
    NAMESPACES,
    PODS,
    SECRETS,
)
IN_TARGET = (CLUSTER_SUMMARIES, CHAPERONS, SERVICES, ENDPOINT_SLICES)


class FailingLists:
    """Answers lists of one kind with an error for a while, counted from the first one."""

    def __init__(self, relay: Relay) -> None:
        self._plural = ""
        self._until = 0.0
        self.failed = 0
        relay.answer = self._answer

    def choose(self, kind: Kind | None) -> None:
        """Fail the next lists of a kind; None for no kind."""
        self._plural, self._until, self.failed = kind.plural if kind is not None else "", 0.0, 0

    async def _answer(self, method: str, path: str) -> dict[str, Any] | None:
        if method != "GET" or not self._plural or path.rpartition("/")[2] != self._plural:
            return None
        now = asyncio.get_running_loop().time()
        self._until = self._until or now + FAILING_SECONDS
        if now >= self._until:
            return None
        self.failed += 1
        return {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcdserver: request timed out"}


class Published:
    """Addresses of foreign pods that were ever published in either cluster."""

    def __init__(self) -> None:
        self.foreign: list[str] = []

    def slice_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and is_mirror(new.labels):
            self.foreign += [each for one in new.decode()["endpoints"] or () for each in one["addresses"]]

    def pod_changed(self, old: Object | None, new: Object | None) -> None:
        status = (new.decode().get("status") or {}) if new is not None else {}
        self.foreign += [each["ip"] for each in status.get("podIPs") or () if new is not None and new.name == "web"]


class Scene:
    """A source and a target with one pod network, each behind a relay; tests start and stop agents of the source."""

    def __init__(self, pair: Pair, relays: tuple[Relay, Relay], kubeconfig: Path) -> None:
        self.pair = pair
        self.failing = tuple(map(FailingLists, relays))
        self.published = Published()
        self._source = cast("SandboxCluster", SimpleNamespace(kubeconfig=kubeconfig))

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Record published addresses while the context lasts."""
        async with contextlib.AsyncExitStack() as stack:
            for each in self.pair.clusters:
                cluster = Cluster(load(str(each.kubeconfig)), "looking")
                stack.push_async_callback(cluster.close)
                slices = cluster.informer(ENDPOINT_SLICES, self.pair.namespace)
                slices.subscribe(self.published.slice_changed)
                pods = cluster.informer(PODS, self.pair.namespace)
                pods.subscribe(self.published.pod_changed)
                await slices.synced.wait()
                await pods.synced.wait()
            yield

    async def agent(self, here: Kind | None = None, there: Kind | None = None, *, waits: bool = True) -> None:
        """Run an agent whose first lists fail, until all its caches are synced."""
        for failing, kind in zip(self.failing, (here, there), strict=True):
            failing.choose(kind)
        async with running(self._source, *CONTROLLERS) as deps:
            key = (self.pair.namespace, "eu")
            await until(lambda: (found := deps.targets.get(key)) is not None and found.ready)
            found = deps.targets.get(key)
            assert found is not None
            if waits:
                await found.summaries.synced.wait()
                await condition(self.pair.here, self.pair.namespace, "eu", "ServicesShared", *self.verdict)
            await asyncio.sleep(0.4)
        for failing, kind in zip(self.failing, (here, there), strict=True):
            assert failing.failed or kind is None

    verdict: tuple[str, str] = ("False", links.OVERLAP)


async def chaperon_of(proxy: dict[str, Any], client: Client, namespace: str, uid: str) -> None:
    """Return the chaperon in the target that reports the delegate's status."""
    metadata = proxy["metadata"]
    name = names.chaperon(metadata["name"], metadata["uid"])
    labels = {names.LABEL_PARENT_UID: metadata["uid"], names.LABEL_PARENT_CLUSTER_UID: uid}
    annotations = {names.ANNOTATION_PARENT_NAME: "web", names.ANNOTATION_PARENT_NAMESPACE: namespace}
    made = {
        "apiVersion": CHAPERONS.api_version,
        "kind": CHAPERONS.name,
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    await client.create(CHAPERONS, made, namespace)
    status = {"phase": "Running", "podIP": "10.1.3.9", "podIPs": [{"ip": "10.1.3.9"}]}
    await client.patch(CHAPERONS, name, {"status": status}, namespace, sub="status")


@pytest.fixture
async def scene(pair: Pair, tmp_path: Path) -> AsyncIterator[Scene]:
    """Give both clusters the Service and an endpoint each, and run a delegate in the target."""
    here, there = [await uid_of(client) for client in (pair.here, pair.there)]
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(forget, pair)
        relays = [await stack.enter_async_context(Relay.started(load(str(each.kubeconfig)))) for each in pair.clusters]
        for client, uid in ((pair.here, here), (pair.there, there)):
            await tell(client, uid, "", NETWORK)
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig(pair.clusters[0], server=relays[0].connection.server, user={}))
        far = kubeconfig(pair.clusters[1], server=relays[1].connection.server, user={})
        await pair.here.create(SECRETS, secret("eu", pair.namespace, config=far))
        await pair.here.create(TARGETS, target("eu", pair.namespace))
        await pair.create(SERVICES, "web", metadata=SHARED, spec={"ports": [{"name": "http", "port": 80}]})
        proxy = proxy_pod(elected("web", pair.namespace), [names.finalizer(pair.namespace, "eu")])
        proxy["spec"]["nodeName"] = node_of(pair)
        proxy["metadata"]["annotations"][names.ANNOTATION_CLAIM] = node_of(pair)
        await chaperon_of(await pair.here.create(PODS, proxy), pair.there, pair.namespace, here)
        offered = Links(pair, here)
        await offered.offer(pair.here, "10.1.0.1")
        await offered.offer(pair.there, "10.1.0.2")
        yield Scene(pair, (relays[0], relays[1]), path)


def node_of(pair: Pair) -> str:
    return names.virtual_node(pair.namespace, "eu")


async def forget(pair: Pair) -> None:
    """Delete objects that are outside the test's namespace or have finalizers."""
    for client in (pair.here, pair.there):
        with contextlib.suppress(NotFound):
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    with contextlib.suppress(NotFound):
        await pair.end("web")
    with contextlib.suppress(NotFound):
        await pair.here.patch(TARGETS, "eu", {"metadata": {"finalizers": None}}, pair.namespace)
        await pair.here.delete(TARGETS, "eu", pair.namespace)
    with contextlib.suppress(NotFound):
        await pair.here.delete(NODES, node_of(pair))


async def test_no_foreign_address_is_published_while_summaries_cannot_be_listed(scene: Scene) -> None:
    async with scene.watched():
        await scene.agent(there=CLUSTER_SUMMARIES)
        await scene.agent(there=CLUSTER_SUMMARIES)
        await scene.agent(here=CLUSTER_SUMMARIES)
        pod = await scene.pair.here.get(PODS, "web", scene.pair.namespace)
        assert pod["status"]["phase"] == "Running"
        assert pod["metadata"]["annotations"][links.ANNOTATION_POD_IPS] == "10.1.3.9"
        assert await scene.pair.here.get(NODES, node_of(scene.pair))
    assert scene.published.foreign == []


@pytest.mark.full("It starts agents 36 times.")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("by", ["nothing", "gateway"])
async def test_no_foreign_address_is_published_whichever_lists_fail(scene: Scene, by: str) -> None:
    if by == "gateway":
        for client in (scene.pair.here, scene.pair.there):
            await gateway(client, "CA")
        scene.verdict = ("True", links.BY_GATEWAY)
    async with scene.watched():
        await scene.agent()
        for kind in IN_SOURCE:
            await scene.agent(here=kind)
        for kind in IN_TARGET:
            await scene.agent(there=kind)
            await scene.agent(here=CLUSTER_SUMMARIES, there=kind)
    assert scene.published.foreign == []


@pytest.mark.seldom
@pytest.mark.timeout(900)
async def test_no_foreign_address_is_published_if_lists_fail_in_both_clusters(scene: Scene) -> None:
    async with scene.watched():
        await scene.agent()
        for here in IN_SOURCE:
            for there in IN_TARGET:
                await scene.agent(here=here, there=there)
    assert scene.published.foreign == []


async def test_no_foreign_address_is_published_while_summaries_are_missing_or_flawed(scene: Scene) -> None:
    client, flaw = scene.pair.there, {names.ANNOTATION_NODE_SHAPES: "no shapes"}
    networks = (await client.get(CLUSTER_SUMMARIES, names.SUMMARY_NAME))["metadata"]["annotations"]

    async def annotate(**annotations: str | None) -> None:
        await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, {"metadata": {"annotations": annotations}})

    async with scene.watched():
        # A fault in another field hides no networks, even from an agent that has not seen them before.
        await annotate(**flaw)
        await scene.agent()
        for text in ('{"pods":["nonsense"]}', "{", None):
            await annotate(**{links.ANNOTATION_NETWORKS: text})
            await scene.agent()
        await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
        await scene.agent()
        await tell(client, networks[names.ANNOTATION_CLUSTER_UID], "", NETWORK)
    assert scene.published.foreign == []
