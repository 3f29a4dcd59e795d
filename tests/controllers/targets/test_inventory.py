"""Publishing a target's inventory, on a real API server that is both source and target."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_TARGETS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TARGETS,
    Kind,
)
from agent.api.roles import EVERYTHING, MISSED, cluster_summary_viewer_role, rules
from agent.kube.client import Client
from agent.targets.inventory import InventoryController, controller
from agent.targets.target import TargetController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, secret, target, tear_away
from tests.e2e.fleet import token_of
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

CONTROLLERS = (TargetController, InventoryController)
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
Raw = dict[str, Any]

CLAIM: Raw = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}


@pytest.fixture(autouse=True)
async def _namespace(client: Client, namespace: str) -> AsyncIterator[None]:
    await client.patch(NAMESPACES, namespace, {"metadata": {"labels": {"multicluster-scheduler": "enabled"}}})
    yield
    await tear_away(client, namespace)


async def account(client: Client, namespace: str, name: str) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace)


async def claim(client: Client, namespace: str, name: str) -> None:
    await client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": CLAIM}, namespace)


async def published(client: Client, namespace: str, want: Raw) -> None:
    """Wait until the Target publishes this about its namespace."""

    async def probe() -> bool:
        status = (await client.get(TARGETS, "c2", namespace)).get("status", {})
        return bool(status.get("namespaces") == [{"name": namespace, **want}])

    await until(probe)


async def test_what_a_target_has_is_in_its_status(cluster: Cluster, client: Client, namespace: str) -> None:
    await account(client, namespace, "builder")
    await add(client, namespace, "c2", kubeconfig(cluster))
    async with running(cluster, *CONTROLLERS):
        await published(client, namespace, {"serviceAccounts": ["builder"], "persistentVolumeClaims": []})
        await claim(client, namespace, "data")
        await published(client, namespace, {"serviceAccounts": ["builder"], "persistentVolumeClaims": ["data"]})
        await client.delete(SERVICE_ACCOUNTS, "builder", namespace)
        await published(client, namespace, {"serviceAccounts": [], "persistentVolumeClaims": ["data"]})
        told = await condition(client, namespace, "c2", "InventoryPublished", "True", "Published")
        assert "warning" in told["message"]
        await condition(client, namespace, "c2", "Ready", "True")


async def follow(client: Client, namespace: str, want: list[str]) -> None:
    """Wait until the Target publishes that these kinds follow pods."""

    async def probe() -> bool:
        return (await client.get(TARGETS, "c2", namespace)).get("status", {}).get("follow", []) == want

    await until(probe)


async def test_claims_follow_where_they_may_be_created(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "LONGEST_SECONDS", 1.0)
    await account(client, namespace, "source")
    await bind(client, namespace)
    lists = [rule for rule in rules(EVERYTHING) if rule["resources"] != ["persistentvolumeclaims"]]
    lists += [{"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["list", "watch"]}]
    await client.patch(ROLES, "source", {"rules": lists}, namespace)
    token = await token_of(client, "source", namespace)
    await add(client, namespace, "c2", kubeconfig(cluster, user={"token": token}))
    async with running(cluster, *CONTROLLERS, discovery_interval=1.0):
        await condition(client, namespace, "c2", "InventoryPublished", "True")
        await follow(client, namespace, ["serviceaccounts"])
        await client.patch(ROLES, "source", {"rules": rules(EVERYTHING)}, namespace)
        await follow(client, namespace, ["persistentvolumeclaims", "serviceaccounts"])
        # No watch reports that a right was revoked.
        await client.patch(ROLES, "source", {"rules": lists}, namespace)
        await follow(client, namespace, ["serviceaccounts"])


async def test_a_cluster_target_describes_every_namespace_whose_pods_may_be_elected(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await account(client, namespace, "builder")
    await client.create(SECRETS, secret("c2", namespace, config=kubeconfig(cluster)))
    spec = {"kubeconfigSecret": {"namespace": namespace, "name": "c2"}}
    manifest = {"apiVersion": CLUSTER_TARGETS.api_version, "kind": CLUSTER_TARGETS.name, "spec": spec}
    await client.create(CLUSTER_TARGETS, manifest | {"metadata": {"name": namespace}})
    want = {"name": namespace, "serviceAccounts": ["builder"], "persistentVolumeClaims": []}

    async def described() -> bool:
        status = (await client.get(CLUSTER_TARGETS, namespace)).get("status", {})
        found = status.get("namespaces") or []
        assert "kube-system" not in [one["name"] for one in found]
        return want in found

    async with running(cluster, *CONTROLLERS):
        await until(described)
        await client.delete(CLUSTER_TARGETS, namespace)
        await gone(lambda: client.get(CLUSTER_TARGETS, namespace))


async def test_a_namespace_whose_pods_cannot_be_elected_is_not_described(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.patch(NAMESPACES, namespace, {"metadata": {"labels": {"multicluster-scheduler": None}}})
    await add(client, namespace, "c2", kubeconfig(cluster))
    async with running(cluster, *CONTROLLERS):
        await condition(client, namespace, "c2", "InventoryPublished", "True")
        assert (await client.get(TARGETS, "c2", namespace))["status"]["namespaces"] == []


async def test_a_target_that_is_this_cluster_needs_no_inventory(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(TARGETS, target("c2", namespace, self=True))
    async with running(cluster, *CONTROLLERS):
        await condition(client, namespace, "c2", "Ready", "True")
        await add(client, namespace, "c3", kubeconfig(cluster))
        await condition(client, namespace, "c3", "InventoryPublished", "True")
        assert "namespaces" not in (await client.get(TARGETS, "c2", namespace))["status"]


async def bind(client: Client, namespace: str, *, but: str = "") -> None:
    """Give the service account `source` the roles of a source, without one resource."""
    subjects = [{"kind": "ServiceAccount", "name": "source", "namespace": namespace}]
    granted = [rule for rule in rules(EVERYTHING) if rule["resources"] != [but]]
    await client.create(ROLES, {"metadata": {"name": "source"}, "rules": granted}, namespace)
    for kind, role_kind, role in (
        (ROLE_BINDINGS, "Role", "source"),
        (CLUSTER_ROLE_BINDINGS, "ClusterRole", cluster_summary_viewer_role()["metadata"]["name"]),
    ):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}
        manifest = {"metadata": {"name": namespace}, "roleRef": reference, "subjects": subjects}
        await client.create(kind, manifest, namespace if kind.namespaced else None)


@pytest.mark.parametrize("kind", MISSED, ids=str)
async def test_a_verb_that_is_missing_switches_off_what_it_is_for(
    cluster: Cluster, client: Client, namespace: str, kind: Kind
) -> None:
    await account(client, namespace, "source")
    await bind(client, namespace, but=kind.plural)
    token = await token_of(client, "source", namespace)
    await add(client, namespace, "c2", kubeconfig(cluster, user={"token": token}))
    want = {"serviceAccounts": ["source"], "persistentVolumeClaims": []}
    field = {"serviceaccounts": "serviceAccounts", "persistentvolumeclaims": "persistentVolumeClaims"}[kind.plural]
    async with running(cluster, *CONTROLLERS):
        told = await condition(client, namespace, "c2", "InventoryPublished", "False", "Forbidden")
        assert kind.plural in told["message"]
        await published(client, namespace, {name: value for name, value in want.items() if name != field})
        await condition(client, namespace, "c2", "Ready", "True")
        await client.patch(ROLES, "source", {"rules": rules(EVERYTHING)}, namespace)
        await condition(client, namespace, "c2", "InventoryPublished", "True")
        await published(client, namespace, want)
    await client.delete(CLUSTER_ROLE_BINDINGS, namespace)
