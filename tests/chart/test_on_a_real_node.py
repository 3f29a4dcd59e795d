"""The chart as a user meets it: agent, webhook and candidate scheduler as pods, from installation to the end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CHAPERONS, DEPLOYMENTS, NAMESPACES, NODES, PODS, TARGETS
from agent.api.names import SCHEDULER_PROXY
from agent.kube.client import Client
from agent.sandbox import Cluster, Sandbox, ownimage
from agent.sandbox.objects import connect
from agent.sandbox.realnode.images import BUSYBOX_IMAGE
from tests.chart import helm
from tests.chart.conftest import clear
from tests.chart.helm import CHART, NAMESPACE, Raw
from tests.sandbox.realnode.conftest import kubectl, why_not
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.e2e, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

IMAGE = "flotilla.local/flotilla"
SCHEDULER = "flotilla.local/kube-scheduler"
FLAGS = (str(CHART), "-n", NAMESPACE, "--wait", "--timeout=4m")
VALUES = {
    "clusterName": "one",
    "image.repository": IMAGE,
    "image.tag": "test",
    "candidateScheduler.enabled": "true",
    "candidateScheduler.image.repository": SCHEDULER,
    "candidateScheduler.image.tag": "v1",
    "agent.settings.release-after": "3",
}
VIRTUAL_NODE = "admiralty-default-one"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A cluster with a real node that has our images and nothing else of ours."""
    if reason := why_not():
        pytest.skip(reason)
    async with Sandbox(tmp_path_factory.mktemp("real") / "one", ["one"], "real:1", agents=False) as sandbox:
        await clear(sandbox["one"])
        scheduler = Path(sandbox.plan.programs["kube-scheduler"])
        own = await asyncio.to_thread(ownimage.build, sandbox.directory / "own.tar", f"{IMAGE}:test")
        other = await asyncio.to_thread(
            ownimage.build_program, scheduler, sandbox.directory / "scheduler.tar", f"{SCHEDULER}:v1"
        )
        for file in (own, other):
            await sandbox.load(file)
            file.unlink()
        yield sandbox["one"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(one: Cluster) -> AsyncIterator[Client]:
    """All rights."""
    client = connect(one.kubeconfig)
    async with client.session:
        yield client


async def call(cluster: Cluster, *arguments: str) -> str:
    return await asyncio.to_thread(helm.run, *arguments, kubeconfig=cluster.kubeconfig)


def sets(values: dict[str, str]) -> list[str]:
    return [flag for name, value in values.items() for flag in ("--set", f"{name}={value}")]


def deployment(name: str, **annotations: str) -> Raw:
    """Two elected pods that run until they are told to end."""
    script = "trap exit TERM; while :; do sleep 1; done"
    containers = [{"name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script]}]
    labels = {"app": name}
    metadata = {"labels": labels, "annotations": {"multicluster.admiralty.io/elect": "", **annotations}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": {"containers": containers}},
        },
    }


async def proxies(client: Client) -> list[Raw]:
    return await client.list(PODS, "default", fields=f"spec.schedulerName={SCHEDULER_PROXY}")


async def delegates(client: Client) -> dict[str, int]:
    """UIDs of delegates, and how often their containers have been started again."""
    pods = await client.list(PODS, "default", labels="multicluster.admiralty.io/parent-uid")
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
        for pod in pods
    }


async def logs(one: Cluster, component: str) -> str:
    selector = f"app.kubernetes.io/component={component}"
    return await kubectl(one, "-n", NAMESPACE, "logs", "-l", selector, "--all-containers", "--tail=-1", "--prefix")


async def test_from_installation_to_the_end(one: Cluster, client: Client) -> None:
    await call(one, "install", "flotilla", *FLAGS, *sets(VALUES))

    label: Any = {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}}
    await client.patch(NAMESPACES, "default", label)
    target = {
        "apiVersion": TARGETS.api_version,
        "kind": TARGETS.name,
        "metadata": {"name": "one"},
        "spec": {"self": True},
    }
    await client.create(TARGETS, target, "default")
    await client.create(DEPLOYMENTS, deployment("web"), "default")
    await client.create(DEPLOYMENTS, deployment("held", **{"multicluster/scheduling": "reserve"}), "default")

    async def all_run() -> bool:
        found = await proxies(client)
        return len(found) == 4 and all(
            pod["status"]["phase"] == "Running" and pod["spec"]["nodeName"] == VIRTUAL_NODE for pod in found
        )

    await until(all_run, 120)
    before = await delegates(client)
    assert list(before.values()) == [0] * 4

    # Every process is another one afterwards; the workload is the same.
    await call(one, "upgrade", "flotilla", *FLAGS, "--reuse-values", "--set", "agent.logJson=true,webhook.logJson=true")
    await until(all_run, 120)
    assert await delegates(client) == before
    for component in ("agent", "webhook"):
        refused = [
            line
            for line in (await logs(one, component)).splitlines()
            if f"flotilla-{component}" in line and " cannot " in line
        ]
        assert refused == []

    with pytest.raises(helm.Failed, match="job flotilla-uninstall failed"):
        await call(one, "uninstall", "flotilla", "-n", NAMESPACE)
    why = await kubectl(one, "-n", NAMESPACE, "logs", "job/flotilla-uninstall")
    assert "nothing was changed: 4 proxy pods of this cluster" in why
    assert await all_run()
    assert await delegates(client) == before

    # After a refusal Helm upgrades no more, unless one rolls back; what was said can be said to the cluster as well.
    await kubectl(
        one, "-n", NAMESPACE, "annotate", "deployment", "flotilla-agent", "multicluster/uninstall-policy=delete"
    )
    await call(one, "uninstall", "flotilla", "-n", NAMESPACE, "--wait", "--timeout=5m")
    assert await proxies(client) == []
    assert await delegates(client) == {}
    assert await client.list(CHAPERONS) == []
    assert [node["metadata"]["name"] for node in await client.list(NODES, labels="virtual-kubelet.io/provider")] == []
    assert "finalizers" not in (await client.get(TARGETS, "one", "default"))["metadata"]
    assert [pod["metadata"]["name"] for pod in await client.list(PODS, NAMESPACE)] == []

    async def at_home() -> bool:
        pods = await client.list(PODS, "default")
        running = [
            pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return len(running) == 4

    await until(at_home, 120)
