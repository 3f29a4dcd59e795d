"""Sources on a real API server."""

from functools import partial
from typing import Any

from agent.api.conditions import find_condition
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_SOURCES,
    NAMESPACES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SOURCES,
    Kind,
)
from agent.api.names import cluster_source_binding, cluster_source_viewer_binding
from agent.kube.client import Client
from agent.targets.source import SourceController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.waiting import empty, gone, until


def source(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": SOURCES.api_version,
        "kind": "Source",
        "metadata": {"name": "cd", "namespace": namespace},
        "spec": spec,
    }


async def ready(client: Client, kind: Kind, name: str, namespace: str | None, status: str) -> dict[str, Any]:
    """Return the Source's condition Ready, once it has this status."""

    async def probe() -> dict[str, Any] | None:
        found = await client.get(kind, name, namespace)
        condition = find_condition(found.get("status", {}).get("conditions"), "Ready")
        return dict(condition) if condition and condition["status"] == status else None

    condition = await until(probe)
    return condition


async def viewers(client: Client, namespace: str) -> list[dict[str, Any]]:
    """Return the ClusterRoleBindings of the Source `cd` of a namespace; their name may be hashed."""
    found = await client.list(CLUSTER_ROLE_BINDINGS, labels="multicluster/source")
    return [one for one in found if one["metadata"]["annotations"]["multicluster/source"] == f"{namespace}/cd"]


async def test_a_source_gets_its_rights_and_loses_them(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, SourceController):
        await client.create(SOURCES, source(namespace, serviceAccountName="cd"))
        await ready(client, SOURCES, "cd", namespace, "True")
        account = await client.get(SERVICE_ACCOUNTS, "cd", namespace)
        assert account["metadata"]["ownerReferences"][0]["kind"] == "Source"
        binding = await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "cd", "namespace": namespace}]
        assert len(await viewers(client, namespace)) == 1

        await client.delete(SOURCES, "cd", namespace)
        await gone(lambda: client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace))
        await until(lambda: empty(viewers(client, namespace)))


async def test_what_is_changed_or_deleted_by_hand_is_repaired(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, SourceController):
        await client.create(SOURCES, source(namespace, userName="cd", serviceAccountName="cd"))
        await ready(client, SOURCES, "cd", namespace, "True")
        await client.patch(ROLE_BINDINGS, "admiralty-source-cd", {"subjects": None}, namespace)
        await until(lambda: subjects(client, namespace))
        await client.patch(ROLE_BINDINGS, "admiralty-source-cd", {"metadata": {"labels": None}}, namespace)
        await until(lambda: labels(client, namespace))
        (binding,) = await viewers(client, namespace)
        await client.delete(CLUSTER_ROLE_BINDINGS, binding["metadata"]["name"])
        await until(lambda: viewers(client, namespace))
        before = (await client.get(SERVICE_ACCOUNTS, "cd", namespace))["metadata"]["uid"]
        await client.delete(SERVICE_ACCOUNTS, "cd", namespace)
        await until(lambda: another(client, namespace, before))


async def another(client: Client, namespace: str, uid: str) -> bool:
    """Return whether the service account exists with a UID other than this one."""
    return bool((await client.get(SERVICE_ACCOUNTS, "cd", namespace))["metadata"]["uid"] != uid)


async def test_a_service_account_made_by_hand_stays_as_it_is_and_is_made_again_when_it_goes(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    made = await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "cd", "namespace": namespace}})
    async with running(cluster, SourceController) as deps:
        await client.create(SOURCES, source(namespace, serviceAccountName="cd"))
        await ready(client, SOURCES, "cd", namespace, "True")
        kept = await client.get(SERVICE_ACCOUNTS, "cd", namespace)
        assert kept["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        await client.delete(SERVICE_ACCOUNTS, "cd", namespace)
        await until(lambda: another(client, namespace, made["metadata"]["uid"]))
        await client.patch(SOURCES, "cd", {"spec": {"serviceAccountName": "other"}}, namespace)
        await until(lambda: client.get(SERVICE_ACCOUNTS, "other", namespace))
        watched = [
            each for each in deps.local.informers if (each.kind, each.namespace) == (SERVICE_ACCOUNTS, namespace)
        ]
        assert watched == [], "nothing is watched that no Source names"
        await client.delete(SOURCES, "cd", namespace)
        await gone(lambda: client.get(SERVICE_ACCOUNTS, "other", namespace))


async def test_the_service_account_that_a_source_made_goes_with_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, SourceController):
        await client.create(SOURCES, source(namespace, serviceAccountName="cd"))
        await ready(client, SOURCES, "cd", namespace, "True")
        await client.delete(SOURCES, "cd", namespace)
        await gone(lambda: client.get(SERVICE_ACCOUNTS, "cd", namespace))


async def test_drift_of_a_cluster_source_is_repaired_and_all_goes_with_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    spec = {"userName": "spiffe://cd", "serviceAccount": {"name": "cd", "namespace": namespace}}
    manifest = {
        "apiVersion": SOURCES.api_version,
        "kind": "ClusterSource",
        "metadata": {"name": namespace},
        "spec": spec,
    }
    bindings = [cluster_source_binding(namespace), cluster_source_viewer_binding(namespace)]
    granted = [
        {"kind": "ServiceAccount", "name": "cd", "namespace": namespace},
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "spiffe://cd"},
    ]
    async with running(cluster, SourceController):
        await client.create(CLUSTER_SOURCES, manifest)
        await ready(client, CLUSTER_SOURCES, namespace, None, "True")
        for name in bindings:
            assert (await client.get(CLUSTER_ROLE_BINDINGS, name))["subjects"] == granted
            await client.patch(CLUSTER_ROLE_BINDINGS, name, {"subjects": [{"kind": "User", "name": "intruder"}]})
            await until(partial(grants, client, name, granted))
            await client.delete(CLUSTER_ROLE_BINDINGS, name)
            await until(partial(grants, client, name, granted))
        await client.patch(CLUSTER_SOURCES, namespace, {"spec": {"userName": None}})
        for name in bindings:
            await until(partial(grants, client, name, granted[:1]))
        await client.delete(CLUSTER_SOURCES, namespace)
        for name in bindings:
            await gone(partial(client.get, CLUSTER_ROLE_BINDINGS, name))
        await gone(lambda: client.get(SERVICE_ACCOUNTS, "cd", namespace))


async def grants(client: Client, name: str, subjects: list[dict[str, Any]]) -> bool:
    return bool((await client.get(CLUSTER_ROLE_BINDINGS, name)).get("subjects") == subjects)


async def subjects(client: Client, namespace: str) -> Any:
    return (await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)).get("subjects")


async def labels(client: Client, namespace: str) -> Any:
    return (await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace))["metadata"].get("labels")


async def test_rights_go_when_the_source_went_while_no_agent_ran(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, SourceController):
        await client.create(SOURCES, source(namespace, userName="cd"))
        await ready(client, SOURCES, "cd", namespace, "True")
    await client.delete(SOURCES, "cd", namespace)
    assert await viewers(client, namespace)
    async with running(cluster, SourceController):
        await until(lambda: empty(viewers(client, namespace)))


async def test_a_binding_that_an_older_agent_made_is_taken_over(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(
        ROLE_BINDINGS,
        {
            "metadata": {"name": "admiralty-source-cd", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "old"},
            "subjects": [],
        },
    )
    async with running(cluster, SourceController):
        await client.create(SOURCES, source(namespace, userName="cd"))
        await ready(client, SOURCES, "cd", namespace, "True")
        binding = await client.get(ROLE_BINDINGS, "admiralty-source-cd", namespace)
        assert binding["roleRef"]["name"] == "multicluster-scheduler-source"


async def test_a_source_that_names_nobody_says_so(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, SourceController):
        await client.create(SOURCES, source(namespace))
        condition = await ready(client, SOURCES, "cd", namespace, "False")
        assert condition["reason"] == "InvalidSpec"
        assert "userName" in condition["message"]


async def test_a_cluster_source_waits_for_the_namespace_of_its_service_account(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    team = f"{namespace}-team"
    manifest = {
        "apiVersion": SOURCES.api_version,
        "kind": "ClusterSource",
        "metadata": {"name": namespace},
        "spec": {"serviceAccount": {"name": "cd", "namespace": team}},
    }
    async with running(cluster, SourceController):
        await client.create(CLUSTER_SOURCES, manifest)
        condition = await ready(client, CLUSTER_SOURCES, namespace, None, "False")
        assert f'namespaces "{team}" not found' in condition["message"]
        await client.create(NAMESPACES, {"metadata": {"name": team}})
        await ready(client, CLUSTER_SOURCES, namespace, None, "True")
        assert await client.get(SERVICE_ACCOUNTS, "cd", team)
        name = f"admiralty-cluster-source-{namespace}"
        assert await client.get(CLUSTER_ROLE_BINDINGS, name)
        await client.delete(CLUSTER_SOURCES, namespace)
        await gone(lambda: client.get(CLUSTER_ROLE_BINDINGS, name))
    await client.delete(NAMESPACES, team)


async def test_a_switched_off_controller_does_nothing(cluster: Cluster, client: Client, namespace: str) -> None:
    await client.create(SOURCES, source(namespace, userName="cd"))
    async with running(cluster, SourceController, source_controller=False) as deps:
        assert list(deps.local.informers) == []
