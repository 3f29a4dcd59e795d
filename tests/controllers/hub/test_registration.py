"""Members on a real API server: what acceptance, denial and deletion make of namespace, rights and conditions."""

import asyncio
import contextlib
import functools
from typing import Any

import pytest

from agent.api.hubroles import bound, member_rules
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
)
from agent.kube.errors import Forbidden, NotFound, Unreachable
from hack.lab.sandbox.objects import connect
from tests.controllers.hub.conftest import ACCEPTED, Hub
from tests.ocm import object_of
from tests.registrationagent import LEASE, RegistrationAgent
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

LABEL = "open-cluster-management.io/cluster-name"
CLEANUP = "cluster.open-cluster-management.io/resource-cleanup"
API_CLEANUP = "cluster.open-cluster-management.io/api-resource-cleanup"
WORKS = "cluster.open-cluster-management.io/manifest-work-cleanup"


def role(cluster: str, of: str = "") -> str:
    return f"open-cluster-management:managedcluster:{cluster}" + (f":{of}" if of else "")


def work(name: str, cluster: str, **metadata: Any) -> Raw:
    return object_of(MANIFEST_WORKS, name, cluster, metadata=metadata, spec={"workload": {"manifests": []}})


async def is_missing(hub: Hub, kind: Any, name: str, namespace: str | None = None) -> bool:
    try:
        await hub.client.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def test_an_agent_joins_by_a_bootstrap_token_a_certificate_request_and_acceptance(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.agent(cluster)
        assert await agent.lacks() == []
        await agent.register()
        request = await agent.request()
        await hub.event(request, "WaitsForAcceptance", f"flotilla hub accept {cluster} --key {agent.fingerprint}")
        assert await is_missing(hub, NAMESPACES, cluster)
        await hub.approve(request)
        await hub.accept(cluster)
        await agent.signed(request)
        told = await hub.condition(cluster, ACCEPTED, "True")
        assert (told["reason"], told["message"]) == ("HubClusterAdminAccepted", "Accepted by hub cluster admin")
        async with hub.serving(agent):
            await hub.condition(cluster, "ManagedClusterJoined", "True")
    found = await hub.get(cluster)
    assert found["metadata"]["labels"]["cluster.open-cluster-management.io/clusterset"] == "default"
    assert found["metadata"]["finalizers"] == [CLEANUP, API_CLEANUP]
    assert not found["spec"].get("taints")


async def test_acceptance_makes_a_namespace_and_exactly_the_rights_of_a_member(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await hub.joined(cluster)
    namespace = await hub.client.get(NAMESPACES, cluster)
    assert namespace["metadata"]["labels"][LABEL] == cluster
    own = await hub.client.get(CLUSTER_ROLES, role(cluster))
    assert {(rule["resources"][0], tuple(rule["verbs"])) for rule in own["rules"]} == {
        ("certificatesigningrequests", ("create", "get", "list", "watch")),
        ("managedclusters/clientcertificates", ("renew",)),
        ("managedclusters", ("get", "list", "update", "watch")),
        ("managedclusters/status", ("patch", "update")),
    }
    subjects = [f"system:open-cluster-management:{cluster}", f"open-cluster-management:{cluster}"]
    for kind, name, of in (
        (CLUSTER_ROLE_BINDINGS, role(cluster), role(cluster)),
        (ROLE_BINDINGS, role(cluster, "registration"), role("registration")),
        (ROLE_BINDINGS, role(cluster, "work"), role("work")),
    ):
        binding = await hub.client.get(kind, name, cluster if kind is ROLE_BINDINGS else None)
        assert [each["name"] for each in binding["subjects"]] == subjects
        assert binding["roleRef"]["name"] == of
        assert binding["metadata"]["labels"][LABEL] == cluster
    assert binding["metadata"]["finalizers"] == [WORKS]


async def test_a_member_reaches_its_own_objects_and_no_others(hub: Hub) -> None:
    mine, other = hub.name("mine"), hub.name("other")
    async with hub.at_work():
        await hub.joined(other)
        agent = await hub.joined(mine)
        await until(lambda: _has(hub, LEASES, LEASE, other))
    async with agent.client() as client:
        await client.get(MANAGED_CLUSTERS, mine)
        for refused in (
            client.get(MANAGED_CLUSTERS, other),
            client.list(MANAGED_CLUSTERS),
            client.patch(MANAGED_CLUSTERS, mine, {"metadata": {"labels": {"a": "b"}}}),
            client.patch(MANAGED_CLUSTERS, other, {"status": {}}, sub="status"),
            client.get(LEASES, LEASE, other),
            client.patch(LEASES, LEASE, {"spec": {}}, mine),
            client.list(SECRETS, mine),
            client.list(CONFIGMAPS, "kube-public"),
            client.list(MANIFEST_WORKS, other),
            client.create(MANIFEST_WORKS, work("w", mine)),
        ):
            with pytest.raises(Forbidden):
                await refused


async def test_a_member_cannot_pass_for_the_managed_cluster_of_a_target(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
    async with agent.client() as client:
        own = await client.get(MANAGED_CLUSTERS, cluster)
        own["metadata"]["labels"]["multicluster/ours"] = "true"
        with pytest.raises(Forbidden, match="cannot change the label multicluster/ours"):
            await client.update(MANAGED_CLUSTERS, own)


async def test_a_member_cannot_give_its_rights_to_another_user(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
    async with agent.client() as client:
        own = await client.get(MANAGED_CLUSTERS, cluster)
        own["metadata"].setdefault("annotations", {})["multicluster/member-user"] = "system:anonymous"
        with pytest.raises(Forbidden, match="cannot change the annotation multicluster/member-user"):
            await client.update(MANAGED_CLUSTERS, own)


async def test_an_agents_stolen_token_changes_no_bindings_of_others(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await hub.joined(cluster)
    subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "x"}]
    other = bound(CLUSTER_ROLES, role("work"), subjects) | {"metadata": {"name": hub.name("theirs")}}
    of_source = bound(CLUSTER_ROLES, role("work"), subjects) | {"metadata": {"name": f"admiralty-source-{cluster}"}}
    changed = {"metadata": {"annotations": {"a": "b"}}}
    thief = connect(hub.cluster.kubeconfig, name="agent")
    async with thief.session:
        for kind, namespace in ((CLUSTER_ROLE_BINDINGS, None), (ROLE_BINDINGS, cluster)):
            name = (await hub.client.create(kind, other, namespace))["metadata"]["name"]
            pretended = {**other, "metadata": {"name": f"{name}-2", "labels": {LABEL: cluster}}}
            for refused in (
                thief.patch(kind, name, changed, namespace),
                thief.patch(kind, name, {"metadata": {"labels": {LABEL: cluster}}}, namespace),
                thief.delete(kind, name, namespace),
                thief.create(kind, pretended, namespace),
            ):
                with pytest.raises(Forbidden, match="writes only those of members"):
                    await refused
            await hub.client.delete(kind, name, namespace)
            await thief.create(kind, of_source, namespace)
            await thief.patch(kind, of_source["metadata"]["name"], changed, namespace)
            await thief.delete(kind, of_source["metadata"]["name"], namespace)


async def test_what_people_change_of_a_members_rights_is_restored(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await hub.joined(cluster)
        await hub.client.patch(CLUSTER_ROLES, role(cluster), {"rules": []})
        await hub.client.delete(ROLE_BINDINGS, role(cluster, "registration"), cluster)
        await until(lambda: _has(hub, ROLE_BINDINGS, role(cluster, "registration"), cluster))

        async def restored() -> bool:
            found = await hub.client.get(CLUSTER_ROLES, role(cluster))
            return bool(found["rules"] == member_rules(cluster, accepted=True))

        await until(restored)


async def test_a_denied_member_keeps_its_works_until_none_is_left_and_may_be_accepted_again(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
        await hub.client.create(MANIFEST_WORKS, work("w", cluster))
        await hub.accept(cluster, accepts=False)
        await gone(functools.partial(hub.client.get, ROLE_BINDINGS, role(cluster, "registration"), cluster))
        async with agent.client() as client:
            await client.get(MANAGED_CLUSTERS, cluster)
            await client.list(MANIFEST_WORKS, cluster)
            with pytest.raises(Forbidden):
                await client.get(LEASES, LEASE, cluster)
        await hub.condition(cluster, ACCEPTED, "True")
        await hub.client.delete(MANIFEST_WORKS, "w", cluster)
        told = await hub.condition(cluster, ACCEPTED, "False")
        assert (told["reason"], told["message"]) == ("HubClusterAdminDenied", "Denied by hub cluster admin")
        await gone(functools.partial(hub.client.get, ROLE_BINDINGS, role(cluster, "work"), cluster))
        await hub.accept(cluster)
        await hub.condition(cluster, ACCEPTED, "True")
        async with agent.client() as client:
            await until(lambda: client.version(MANIFEST_WORKS, cluster), forgiven=Forbidden)


async def test_a_deleted_member_loses_its_rights_at_once_and_its_works_in_order(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
        first = {"open-cluster-management.io/cleanup-priority": "1"}
        await hub.client.create(MANIFEST_WORKS, work("early", cluster, finalizers=["test/held"]))
        await hub.client.create(MANIFEST_WORKS, work("late", cluster, annotations=first))
        addon = object_of(MANAGED_CLUSTER_ADDONS, "a", cluster, metadata={"finalizers": ["test/held"]}, spec={})
        await hub.client.create(MANAGED_CLUSTER_ADDONS, addon)
        await hub.client.delete(MANAGED_CLUSTERS, cluster)
        told = await hub.condition(cluster, "Deleting", "False", "ResourceRemaining")
        text = (
            "The resource managedclusteraddons is remaning, the remaining count is 1, the finalizer pending count is 1"
        )
        told = await until(functools.partial(_deleting, hub, cluster, text))
        assert "a waits for test/held" in told["message"]
        async with agent.client() as client:
            await client.list(MANIFEST_WORKS, cluster)
            with pytest.raises(Forbidden):
                await client.get(MANAGED_CLUSTERS, cluster)
        await _release(hub, MANAGED_CLUSTER_ADDONS, "a", cluster)
        await until(functools.partial(_deleting, hub, cluster, "manifestworks is remaning, the remaining count is 2"))
        assert "deletionTimestamp" not in (await hub.client.get(MANIFEST_WORKS, "late", cluster))["metadata"]
        await _release(hub, MANIFEST_WORKS, "early", cluster)
        await gone(functools.partial(hub.get, cluster))
        assert await is_missing(hub, MANIFEST_WORKS, "late", cluster)
        assert await is_missing(hub, ROLE_BINDINGS, role(cluster, "work"), cluster)
        assert await is_missing(hub, CLUSTER_ROLES, role(cluster))
        await hub.client.get(NAMESPACES, cluster)


async def test_a_deleted_member_loses_its_rights_even_if_its_works_cannot_be_listed(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work() as deps:
        await hub.joined(cluster)
        session = deps.local.client.session
        request = session.request

        async def failing(method: str, path: str, **more: Any) -> bytes:
            if "manifestworks" in path:
                raise Unreachable("etcdserver: request timed out")
            return await request(method, path, **more)

        session.request = failing  # type: ignore[method-assign]
        await hub.client.delete(MANAGED_CLUSTERS, cluster)
        await gone(functools.partial(hub.client.get, CLUSTER_ROLES, role(cluster)))
        session.request = request  # type: ignore[method-assign]
        await gone(functools.partial(hub.get, cluster))


async def test_a_deleted_member_that_will_not_come_back_can_be_abandoned(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await hub.joined(cluster)
        await hub.client.create(MANIFEST_WORKS, work("w", cluster, finalizers=[WORKS]))
        await hub.client.delete(MANAGED_CLUSTERS, cluster)
        await until(functools.partial(_deleting, hub, cluster, f"w waits for {WORKS}"))
        await hub.client.patch(
            MANAGED_CLUSTERS, cluster, {"metadata": {"annotations": {"multicluster/abandon": "true"}}}
        )
        await gone(functools.partial(hub.get, cluster))


async def test_rights_end_with_a_managed_cluster_whose_finalizers_somebody_removes(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await hub.joined(cluster)
        await hub.client.delete(MANAGED_CLUSTERS, cluster)
        with contextlib.suppress(NotFound):
            await hub.client.patch(MANAGED_CLUSTERS, cluster, {"metadata": {"finalizers": None}})
        await gone(functools.partial(hub.client.get, CLUSTER_ROLES, role(cluster)))
        await gone(functools.partial(hub.client.get, ROLE_BINDINGS, role(cluster, "work"), cluster))


async def test_an_agent_that_begins_to_serve_a_hub_does_what_it_left_to_another_controller(hub: Hub) -> None:
    cluster, deleted = hub.name(), hub.name()
    async with hub.at_work():
        await hub.joined(deleted)
    await hub.client.delete(MANAGED_CLUSTERS, deleted)
    await hub.client.patch(MANAGED_CLUSTERS, deleted, {"metadata": {"finalizers": None}})
    async with hub.at_work(placement="consume") as deps:
        agent = RegistrationAgent(cluster, hub.entry, {"token": await hub.token(cluster, accepts=cluster)})
        await agent.register()
        request = await agent.request()
        seen = deps.placement.watch(MANAGED_CLUSTERS)
        await until(lambda: seen.store is not None and seen.store.get(("", cluster)) is not None)
        # The controllers drop their keys meanwhile.
        await asyncio.sleep(1)
        assert "finalizers" not in (await hub.get(cluster))["metadata"]
        deps.placement._become("serve")
        await agent.signed(request)
        await hub.condition(cluster, ACCEPTED, "True")
        await until(lambda: _has(hub, LEASES, LEASE, cluster))
        await gone(functools.partial(hub.client.get, CLUSTER_ROLES, role(deleted)))


async def test_a_namespace_that_is_there_already_is_only_used_if_it_is_for_the_cluster(hub: Hub) -> None:
    cluster = hub.name()
    await hub.client.create(NAMESPACES, {"metadata": {"name": cluster}})
    async with hub.at_work():
        agent = await hub.agent(cluster)
        await agent.register()
        await hub.accept(cluster)
        told = await hub.condition(cluster, ACCEPTED, "False", "Error")
        assert f"kubectl label namespace {cluster} {LABEL}={cluster}" in told["message"]
        assert await is_missing(hub, CLUSTER_ROLES, role(cluster))
        await hub.client.patch(NAMESPACES, cluster, {"metadata": {"labels": {LABEL: cluster}}})
        await hub.condition(cluster, ACCEPTED, "True")


async def test_a_deleted_cluster_leaves_objects_alone_in_a_namespace_that_is_not_its_own(hub: Hub) -> None:
    cluster = hub.name()
    await hub.client.create(NAMESPACES, {"metadata": {"name": cluster}})
    await hub.client.create(MANIFEST_WORKS, work("w", cluster))
    async with hub.at_work():
        await (await hub.agent(cluster)).register()
        await until(functools.partial(_is_held, hub, cluster))
        await hub.client.delete(MANAGED_CLUSTERS, cluster)
        await gone(functools.partial(hub.get, cluster))
    await hub.client.get(MANIFEST_WORKS, "w", cluster)


async def test_namespaces_that_a_set_asks_for_are_listed_with_what_the_agent_says_of_them(hub: Hub) -> None:
    cluster, name = hub.name(), hub.name("set")
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"in": name}}}
    body = {"clusterSelector": selector, "managedNamespaces": [{"name": "b"}, {"name": "a"}]}
    await hub.client.create(MANAGED_CLUSTER_SETS, object_of(MANAGED_CLUSTER_SETS, name, spec=body))
    async with hub.at_work():
        await hub.joined(cluster)
        await hub.client.patch(MANAGED_CLUSTERS, cluster, {"metadata": {"labels": {"in": name}}})
        a, b = {"clusterSet": name, "name": "a"}, {"clusterSet": name, "name": "b"}
        await until(functools.partial(_lists, hub, cluster, [a, b]))
        applied = {"type": "NamespaceAvailable", "status": "True", "reason": "NamespaceApplied", "message": ""}
        told = {**a, "conditions": [applied | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        await hub.client.patch(MANAGED_CLUSTERS, cluster, {"status": {"managedNamespaces": [told, b]}}, sub="status")
        await hub.client.patch(MANAGED_CLUSTER_SETS, name, {"spec": {"managedNamespaces": [{"name": "a"}]}})
        await until(functools.partial(_lists, hub, cluster, [told]))
        await hub.client.delete(MANAGED_CLUSTER_SETS, name)
        await until(functools.partial(_lists, hub, cluster, []))


async def _subjects_are(hub: Hub, cluster: str, names: list[str]) -> bool:
    found = await hub.client.get(CLUSTER_ROLE_BINDINGS, role(cluster))
    return [each["name"] for each in found["subjects"]] == names


async def _is_for(hub: Hub, cluster: str, user: str) -> bool:
    return bool((await hub.get(cluster))["metadata"].get("annotations", {}).get("multicluster/member-user") == user)


async def _is_held(hub: Hub, cluster: str) -> bool:
    return bool((await hub.get(cluster))["metadata"].get("finalizers"))


async def _lists(hub: Hub, cluster: str, wanted: list[Raw]) -> bool:
    return bool(((await hub.get(cluster)).get("status") or {}).get("managedNamespaces", []) == wanted)


async def _has(hub: Hub, kind: Any, name: str, namespace: str | None = None) -> bool:
    await hub.client.get(kind, name, namespace)
    return True


async def _deleting(hub: Hub, cluster: str, text: str) -> Raw | None:
    conditions = (await hub.get(cluster))["status"]["conditions"]
    return next((each for each in conditions if each["type"] == "Deleting" and text in each["message"]), None)


async def _release(hub: Hub, kind: Any, name: str, namespace: str) -> None:
    await hub.client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
