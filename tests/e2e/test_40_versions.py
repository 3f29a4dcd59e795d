"""Promise 40: clusters with the oldest and the newest supported Kubernetes version run each other's pods."""

import json

import pytest

from agent.api.kinds import CONFIGMAPS, PODS, SERVICES
from agent.api.names import PREFIX, virtual_node
from hack.lab.sandbox.plan import OLDEST
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS

RESERVED = {"multicluster/scheduling": "reserve"}
pytestmark = [
    pytest.mark.full("Needs the programs of a second version of Kubernetes."),
    pytest.mark.usefixtures("processes_only"),
]

SETTINGS = {"volumes": [{"name": "settings", "configMap": {"name": "settings"}}]}


async def test_the_clusters_are_of_these_versions(fleet: Fleet) -> None:
    answers = {
        name: json.loads(await client.session.request("GET", "/version"))["gitVersion"]
        for name, client in fleet.clients.items()
    }
    assert answers["old"] == OLDEST
    assert answers["new"].startswith(f"v{fleet.sandbox.plan.kubernetes}.")
    assert answers["new"] != OLDEST


@pytest.mark.parametrize(("source", "target"), [("old", "new"), ("new", "old")])
async def test_either_runs_pods_of_the_other(fleet: Fleet, source: str, target: str) -> None:
    client = fleet.clients[source]
    async with fleet.namespace((target,), source=source) as namespace:
        await client.create(CONFIGMAPS, {"metadata": {"name": "settings"}, "data": {"a": "1"}}, namespace)
        await client.create(SERVICES, shared.service("web"), namespace)
        await client.create(DEPLOYMENTS, manifests.deployment("web", 4, **SETTINGS), namespace)
        await client.create(PODS, manifests.pod("held", annotations=RESERVED), namespace)
        found = [*await fleet.running(namespace, "web", 4, source=source)]
        found += await fleet.running(namespace, "held", 1, source=source)
        assert {pod["spec"]["nodeName"] for pod in found} == {virtual_node(namespace, target)}
        await fleet.agree(namespace)
        assert {cluster for cluster, _ in (await fleet.delegates(namespace)).values()} == {target}
        assert (await fleet.clients[target].get(CONFIGMAPS, "settings", namespace))["data"] == {"a": "1"}

        async def known() -> bool:
            want = sorted(
                pod["status"]["podIP"]
                for _, pod in (await fleet.delegates(namespace)).values()
                if pod["metadata"]["labels"].get(PREFIX + "app") == "web"
            )
            known = [await shared.ready(fleet, namespace, "web", cluster) for cluster in (source, target)]
            return len(want) == 4 and all(each == want for each in known)

        await fleet.until("both know the endpoints", known, about=namespace)
        await client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}}, namespace)
        await fleet.running(namespace, "web", 2, source=source)
        await fleet.agree(namespace)
        fleet.census.check(namespace, at_most=5, may_end=True)
