"""Free capacity of nodes in the ClusterSummary of a real API server."""

import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from agent.api.kinds import CLUSTER_ROLES, CLUSTER_SUMMARIES, NODES, PODS
from agent.clusters.deps import Deps
from agent.kube import informer as module
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.targets.summary import SummaryController
from agent.targets.summary.controller import PAUSE_SECONDS
from agent.targets.summary.usage import FIELDS
from hack.lab.sandbox import Cluster
from tests.controllers.limited import limited
from tests.controllers.starting import running
from tests.controllers.targets.test_summary import node, settled, writes
from tests.kube.watching import running as following
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
EMPTY = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def with_less(**left: str) -> Raw:
    return {"amounts": EMPTY | left}


@pytest.fixture(autouse=True)
async def _tidy(client: Client, namespace: str) -> AsyncIterator[None]:
    """Without a kubelet, only deletion without grace ends pods."""
    yield
    for one in await client.list(PODS, namespace):
        await client.delete(PODS, one["metadata"]["name"], namespace, grace=0)
    for one in await client.list(NODES, labels=f"made-by={namespace}"):
        await client.delete(NODES, one["metadata"]["name"])


async def add_node(client: Client, namespace: str, name: str, **labels: str) -> str:
    made = node(f"{namespace}-{name}", "4", **{"made-by": namespace}, **labels)
    made["status"] = {"capacity": EMPTY, "allocatable": EMPTY}
    await client.create(NODES, made)
    return f"{namespace}-{name}"


def pod(name: str, on: str = "", cpu: str = "1", port: int = 0, **spec: Any) -> Raw:
    container: Raw = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    placed = {"nodeName": on} if on else {"schedulerName": "nobody"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **placed, **spec}}


async def finish(client: Client, namespace: str, name: str, phase: str) -> None:
    await client.patch(PODS, name, {"status": {"phase": phase}}, namespace, sub="status")


async def told(client: Client, namespace: str) -> list[Raw] | None:
    """Return the published free capacity of the test's nodes, all of one shape; None if it is not published."""
    text = (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"].get("annotations", {})
    for shape in json.loads(text.get("multicluster/node-shapes", "[]")):
        if shape["labels"].get("made-by") == namespace:
            return cast("list[Raw] | None", shape.get("free"))
    return None


def free(client: Client, namespace: str, *want: Raw) -> Any:
    async def probe() -> bool:
        return await told(client, namespace) == list(want)

    return until(probe)


async def test_what_is_free_follows_pods_and_nodes(cluster: Cluster, client: Client, namespace: str) -> None:
    first = await add_node(client, namespace, "a")
    await client.create(PODS, pod("early", first), namespace)
    async with running(cluster, SummaryController):
        await free(client, namespace, with_less(cpu="3", pods="109"))

        await client.create(PODS, pod("bound", cpu="500m", port=8080), namespace)
        binding = {"metadata": {"name": "bound"}, "target": {"apiVersion": "v1", "kind": "Node", "name": first}}
        await client.create(PODS, binding, namespace, sub="binding")
        await free(client, namespace, with_less(cpu="2500m", pods="108") | {"ports": ["TCP/8080"]})

        second = await add_node(client, namespace, "b")
        await free(client, namespace, with_less(), with_less(cpu="2500m", pods="108") | {"ports": ["TCP/8080"]})

        await finish(client, namespace, "early", "Succeeded")
        await free(client, namespace, with_less(), with_less(cpu="3500m", pods="109") | {"ports": ["TCP/8080"]})
        await client.delete(PODS, "bound", namespace, grace=0)
        await free(client, namespace, with_less() | {"count": 2})

        await client.create(PODS, pod("failing", second), namespace)
        await free(client, namespace, with_less(), with_less(cpu="3", pods="109"))
        await finish(client, namespace, "failing", "Failed")
        await free(client, namespace, with_less() | {"count": 2})

        await client.create(PODS, pod("last", second, cpu="3"), namespace)
        await free(client, namespace, with_less(), with_less(cpu="1", pods="109"))
        await client.delete(NODES, second)
        await free(client, namespace, with_less())


async def test_a_pod_that_is_resized_takes_what_it_has_until_it_has_less(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    name = await add_node(client, namespace, "a")
    await client.create(PODS, pod("p", name, cpu="2"), namespace)
    async with running(cluster, SummaryController):
        await free(client, namespace, with_less(cpu="2", pods="109"))
        has = [{"name": "main", "image": "", "imageID": "", "ready": True, "restartCount": 0}]
        has[0]["resources"] = {"requests": {"cpu": "3"}}
        await client.patch(PODS, "p", {"status": {"containerStatuses": has}}, namespace, sub="status")
        await free(client, namespace, with_less(cpu="1", pods="109"))


async def test_a_pod_that_leaves_the_selection_leaves_the_watch(client: Client, namespace: str) -> None:
    """The API server then sends DELETED, with a resource version later than that of any earlier event."""
    name = await add_node(client, namespace, "a")
    informer = Informer(client, PODS, namespace, fields=FIELDS)
    seen: list[tuple[str, bool]] = []
    informer.subscribe(lambda old, new: seen.append(((new or cast("Any", old)).name, new is not None)))
    async with following(informer):
        await client.create(PODS, pod("unbound"), namespace)
        await client.create(PODS, pod("proxy", name, schedulerName="admiralty-proxy"), namespace)
        await client.create(PODS, pod("done", name), namespace)
        await finish(client, namespace, "done", "Succeeded")
        await client.create(PODS, pod("failed", name), namespace)
        await finish(client, namespace, "failed", "Failed")

        async def probe() -> bool:
            return seen == [("done", True), ("done", False), ("failed", True), ("failed", False)]

        await until(probe)
        assert len(informer.store) == 0


async def test_what_does_not_change_what_is_free_is_not_written(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    name = await add_node(client, namespace, "a")
    virtual = await add_node(client, namespace, "v", **{"virtual-kubelet.io/provider": "admiralty"})
    await client.create(PODS, pod("p", name), namespace)
    async with running(cluster, SummaryController) as deps:
        await free(client, namespace, with_less(cpu="3", pods="109"))
        before = await settled()
        await client.create(PODS, pod("daemon", virtual), namespace)
        await client.create(PODS, pod("unbound"), namespace)
        await client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, namespace)
        version = ""
        for phase in ("Running", "Pending", "Running"):
            await finish(client, namespace, "p", phase)
            version = (await client.get(PODS, "p", namespace))["metadata"]["resourceVersion"]
        await until(lambda: seen(deps, (namespace, "p"), version))
        # A relevant change that is made afterwards is the next and only write.
        await client.create(PODS, pod("q", name), namespace)
        await free(client, namespace, with_less(cpu="2", pods="108"))
        assert await settled() == before + 1


async def seen(deps: Deps, key: tuple[str, str], version: str) -> bool:
    (informer,) = [one for one in deps.local.informers if one.kind == PODS]
    one = informer.store.get(key)
    return one is not None and int(one.version) >= int(version)


async def test_a_burst_of_pods_is_told_at_most_once_a_second(cluster: Cluster, client: Client, namespace: str) -> None:
    name = await add_node(client, namespace, "a")
    at_first = writes()
    async with running(cluster, SummaryController):
        await free(client, namespace, with_less())
        # A write is visible before it is counted, on its response.
        await until(lambda: writes() > at_first)
        before, started = writes(), time.monotonic()
        for number in range(100):
            await client.create(PODS, pod(f"p{number}", name, cpu="10m"), namespace)
        await free(client, namespace, with_less(cpu="3", pods="10"))
        await until(lambda: writes() > before)
        assert writes() - before <= (time.monotonic() - started) / PAUSE_SECONDS + 1


async def test_shapes_that_would_be_too_long_are_not_told(cluster: Cluster, client: Client, namespace: str) -> None:
    async def add(*numbers: int) -> None:
        for number in numbers:
            ten_kilobytes = {f"example.com/{key:060d}": f"{number}-{key:060d}" for key in range(75)}
            await add_node(client, namespace, f"n{number}", **ten_kilobytes)

    async with running(cluster, SummaryController):
        await add(0, 1, 2, 3)
        await until(lambda: says(client, lambda shapes: shapes is not None and shapes.count(namespace) == 4))
        await add(4, 5, 6, 7)
        await until(lambda: says(client, lambda shapes: shapes is None))
        for number in range(4, 8):
            await client.delete(NODES, f"{namespace}-n{number}")
        await until(lambda: says(client, lambda shapes: shapes is not None and '"free"' in shapes))


async def says(client: Client, check: Callable[[str | None], bool]) -> bool:
    annotations = (await client.get(CLUSTER_SUMMARIES, "singleton"))["metadata"].get("annotations") or {}
    return check(annotations.get("multicluster/node-shapes"))


def rules(*, pods: bool) -> list[Raw]:
    granted = [
        {"apiGroups": [""], "resources": ["nodes", "namespaces"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["multicluster.admiralty.io"], "resources": ["clustersummaries"], "verbs": ["*"]},
    ]
    return [*granted, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}] if pods else granted


async def test_an_agent_that_may_not_read_pods_tells_shapes_alone_and_says_so_once(
    cluster: Cluster,
    client: Client,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "_STREAM_SECONDS", (1, 1))
    name = await add_node(client, namespace, "a")
    await client.create(PODS, pod("p", name), namespace)
    caplog.set_level(logging.INFO)
    async with (
        limited(cluster, client, namespace, tmp_path, rules(pods=False)) as weak,
        running(weak, SummaryController, discovery_interval=0.2) as deps,
    ):
        await until(lambda: says(client, lambda shapes: shapes is not None and namespace in shapes))
        assert await told(client, namespace) is None
        assert PODS not in {informer.kind for informer in deps.local.informers}
        await client.patch(CLUSTER_ROLES, namespace, {"rules": rules(pods=True)})
        await free(client, namespace, with_less(cpu="3", pods="109"))
        assert len([record for record in caplog.records if "what is free" in record.message]) == 1
        await client.patch(CLUSTER_ROLES, namespace, {"rules": rules(pods=False)})
        await until(lambda: says(client, lambda shapes: shapes is not None and '"free"' not in shapes))
        assert PODS not in {informer.kind for informer in deps.local.informers}


@pytest.mark.parametrize("detail", ["minimal", "sums"])
async def test_pods_are_not_watched_where_less_is_told(cluster: Cluster, client: Client, detail: str) -> None:
    async with running(cluster, SummaryController, summary_detail=detail) as deps:
        await until(lambda: says(client, lambda shapes: shapes is None))
        assert PODS not in {informer.kind for informer in deps.local.informers}
