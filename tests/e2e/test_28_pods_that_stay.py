"""Promise 28: pods that are not elected run as in a cluster without virtual nodes."""

import contextlib
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import NAMESPACES, NODES, PODS, TARGETS
from agent.kube.errors import NotFound
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw
from tests.e2e.manifests import DEPLOYMENTS, REGION

HOSTNAME = "kubernetes.io/hostname"


def staying(name: str, replicas: int, **spec: Any) -> Raw:
    """Return a Deployment whose pods are not elected."""
    made = manifests.deployment(name, replicas, **spec)
    del made["spec"]["template"]["metadata"]["annotations"]
    return made


def spread_hard(name: str, key: str, **constraint: Any) -> Raw:
    constraints = [{**manifests.spread(name, key, "DoNotSchedule"), **constraint}]
    return staying(name, 4, topologySpreadConstraints=constraints)


async def test_pods_that_are_not_elected_run_on_real_nodes_only(fleet: Fleet, namespace: str) -> None:
    wanted = {"everywhere": 8, "by-region": 4, "by-host": 4}
    await fleet.source.create(DEPLOYMENTS, staying("everywhere", 8, tolerations=[{"operator": "Exists"}]), namespace)
    await fleet.source.create(DEPLOYMENTS, spread_hard("by-region", REGION), namespace)
    await fleet.source.create(DEPLOYMENTS, spread_hard("by-host", HOSTNAME), namespace)

    async def run() -> bool:
        found = {app: await fleet.pods(namespace, app) for app in wanted}
        running = {app: sum(pod["status"]["phase"] == "Running" for pod in pods) for app, pods in found.items()}
        return running == wanted

    await fleet.until("all pods that stay run", run, about=namespace)
    virtual = {
        node["metadata"]["name"]
        for node in await fleet.source.list(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
    }
    assert virtual
    for app in wanted:
        assert not {pod["spec"]["nodeName"] for pod in await fleet.pods(namespace, app)} & virtual, app


async def scheduled(fleet: Fleet, namespace: str, app: str) -> tuple[int, int]:
    """Return the numbers of an app's pods that run, and that the scheduler reports as unschedulable."""
    pods = await fleet.pods(namespace, app)
    refused = [(condition_of(pod, "PodScheduled") or {}).get("reason") == "Unschedulable" for pod in pods]
    return sum(pod["status"]["phase"] == "Running" for pod in pods), sum(refused)


async def is_scheduled(fleet: Fleet, namespace: str, app: str, running: int, refused: int) -> None:
    """Wait until these numbers of an app's pods run and are unschedulable."""

    async def probe() -> bool:
        return await scheduled(fleet, namespace, app) == (running, refused)

    await fleet.until(f"{running} pods of {app} run and {refused} are refused", probe, about=namespace)


async def enable(fleet: Fleet, namespace: str) -> None:
    """Label a namespace, and wait until the API server calls the webhook for its pods."""
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"labels": {names.LABEL_ENABLED: "enabled"}}})
    template = spread_hard("probe", REGION)["spec"]["template"]

    async def called() -> bool:
        pod = {**template, "metadata": {"name": "probe"}}
        return b"nodeTaintsPolicy" in await fleet.source.create_raw(PODS, pod, namespace, dry_run=True)

    await fleet.until("the webhook changes pods of the namespace", called, about=namespace)


@pytest.mark.full("A variant of the test of pods that stay: three remedies in a namespace that is not enabled.")
async def test_each_remedy_schedules_pods_that_are_spread_hard_in_a_namespace_that_is_not_enabled(fleet: Fleet) -> None:
    # Virtual nodes in other tests' namespaces would count as topology domains.
    await fleet.all_gone()
    async with fleet.namespace(enabled=False) as namespace:
        for app in ("enabled", "excluded"):
            await fleet.source.create(DEPLOYMENTS, spread_hard(app, REGION), namespace)
        honoring = spread_hard("honoring", REGION, nodeTaintsPolicy="Honor")
        await fleet.source.create(DEPLOYMENTS, honoring, namespace)
        await is_scheduled(fleet, namespace, "honoring", 4, 0)
        for app in ("enabled", "excluded"):
            await is_scheduled(fleet, namespace, app, 1, 3)

        await enable(fleet, namespace)
        for pod in await fleet.pods(namespace, "enabled"):
            with contextlib.suppress(NotFound):
                await fleet.source.delete(PODS, pod["metadata"]["name"], namespace)
        await is_scheduled(fleet, namespace, "enabled", 4, 0)
        await is_scheduled(fleet, namespace, "excluded", 1, 3)

        without = {"spec": {"excludedLabelsRegexp": r"^topology\.kubernetes\.io/"}}
        for target in ("us", "eu"):
            await fleet.source.patch(TARGETS, target, without, namespace)
        await is_scheduled(fleet, namespace, "excluded", 4, 0)
