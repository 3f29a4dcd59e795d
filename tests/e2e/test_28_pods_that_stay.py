"""Promise 28: pods that are not elected run beside virtual nodes as they did before there were any."""

from typing import Any

from agent.api import names
from agent.api.kinds import NODES
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw
from tests.e2e.manifests import DEPLOYMENTS, REGION

HOSTNAME = "kubernetes.io/hostname"


def staying(name: str, replicas: int, **spec: Any) -> Raw:
    """A Deployment that is not elected."""
    made = manifests.deployment(name, replicas, **spec)
    del made["spec"]["template"]["metadata"]["annotations"]
    return made


def spread_hard(name: str, key: str) -> Raw:
    return staying(name, 4, topologySpreadConstraints=[manifests.spread(name, key, "DoNotSchedule")])


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
