"""ManifestWorks on two real API servers: applied, reported, changed, corrected, deleted and evicted."""

import asyncio
from typing import Any

import pytest

from agent.api.crds.definition import crd
from agent.api.kinds import (
    APPLIED_MANIFEST_WORKS,
    CONFIGMAPS,
    CRDS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Kind,
)
from agent.api.names.works import APPLIED_FINALIZER, HUB_RESTORED, HUB_VERSION, WORK_FINALIZER
from agent.kube.errors import NotFound
from agent.kube.reviews import is_allowed
from tests.klusterlet.conftest import Pair
from tests.waiting import unserved, until

Raw = dict[str, Any]

pytestmark = pytest.mark.cluster


async def test_a_work_is_applied_recorded_reported_and_deleted(pair: Pair) -> None:
    async with pair.at_work():
        await pair.create("w", pair.config("a"), pair.config("b"))
        await pair.said("w", "Applied", status="True", message="Apply manifest work complete")
        await pair.said("w", "Available", status="True", message="All resources are available")
        await pair.said("w", "Applied", ordinal=1, status="True", message="Apply manifest complete")
        work, applied, config = await pair.work("w"), await pair.applied("w"), await pair.copy(CONFIGMAPS, "a")
        assert WORK_FINALIZER in work["metadata"]["finalizers"]
        assert applied is not None
        assert applied["metadata"]["finalizers"] == [APPLIED_FINALIZER]
        assert applied["spec"] == {
            "hubHash": applied["metadata"]["name"][:64],
            "agentID": "agent-1",
            "manifestWorkName": "w",
        }
        assert [
            (each["name"], each["resource"], each["version"]) for each in applied["status"]["appliedResources"]
        ] == [
            ("a", "configmaps", "v1"),
            ("b", "configmaps", "v1"),
        ]
        assert applied["status"]["appliedResources"][0]["uid"] == config["metadata"]["uid"]
        (owner,) = config["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "work.open-cluster-management.io/v1",
            "kind": "AppliedManifestWork",
            "name": applied["metadata"]["name"],
            "uid": applied["metadata"]["uid"],
        }
        await pair.delete("w")
        await pair.gone("w")
        await pair.lacks(CONFIGMAPS, "a")
        await until(lambda: _none(pair, "w"))


async def _none(pair: Pair, name: str) -> bool:
    return await pair.applied(name) is None


async def test_a_removed_manifest_and_dropped_labels_are_removed(pair: Pair) -> None:
    async with pair.at_work():
        await pair.create("w", pair.config("a", labels={"x": "1", "y": "1"}), pair.config("b"))
        await pair.copy(CONFIGMAPS, "b")
        await pair.edit("w", pair.config("a", {"b": "2"}, labels={"y": "1"}))
        await pair.lacks(CONFIGMAPS, "b")
        found = await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"b": "2"})
        assert found["metadata"]["labels"] == {"y": "1"}


async def test_changes_by_others_are_reverted_at_once(pair: Pair) -> None:
    async with pair.at_work():
        await pair.create("w", pair.config("a"), pair.config("b"))
        await pair.said("w", "Applied", status="True")
        await pair.member.patch(CONFIGMAPS, "a", {"data": {"a": "other", "more": "x"}}, pair.namespace)
        await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"a": "1"})
        before = (await pair.copy(CONFIGMAPS, "b"))["metadata"]["uid"]
        await pair.member.delete(CONFIGMAPS, "b", pair.namespace)
        await pair.copy(CONFIGMAPS, "b", lambda obj: obj["metadata"]["uid"] != before)
        applied = await pair.applied("w")
        assert applied is not None


async def test_two_works_that_disagree_are_told_who_the_rival_is(pair: Pair) -> None:
    async with pair.at_work():
        await pair.create("w", pair.config("a", {"a": "1"}))
        await pair.create("v", pair.config("a", {"a": "2"}))
        for name in ("w", "v"):
            await pair.said(name, "multicluster/Contested", ordinal=0, message="another ManifestWork has changed")


async def test_each_strategy_writes_as_it_says(pair: Pair) -> None:
    def config(name: str, strategy: str, **apply: Any) -> Raw:
        identifier = {"resource": "configmaps", "namespace": pair.namespace, "name": name}
        options = {"serverSideApply": apply} if apply else {}
        return {"resourceIdentifier": identifier, "updateStrategy": {"type": strategy, **options}}

    ignored = [{"condition": "OnSpokePresent", "jsonPaths": [".data.free"]}]
    configs = [
        config("once", "CreateOnly"),
        config("read", "ReadOnly"),
        config("missing", "ReadOnly"),
        config("server", "ServerSideApply"),
        config("free", "ServerSideApply", force=True, ignoreFields=ignored),
    ]
    await pair.member.create(CONFIGMAPS, pair.config("read", {"x": "y"}))
    await pair.member.create(CONFIGMAPS, pair.config("server", {"a": "theirs"}))
    async with pair.at_work():
        manifests = [pair.config(name) for name in ("once", "read", "missing", "server")]
        manifests.append(pair.config("free", {"a": "1", "free": "first"}))
        await pair.create("w", *manifests, manifestConfigs=configs)
        await pair.said("w", "Applied", ordinal=3, status="False", message="conflict with")
        await pair.said("w", "Applied", ordinal=2, status="True")
        await pair.said("w", "Available", ordinal=2, status="False", message="Resource is not available")
        read = await pair.copy(CONFIGMAPS, "read")
        assert (read["data"], read["metadata"].get("ownerReferences")) == ({"x": "y"}, None)
        await pair.copy(CONFIGMAPS, "free", lambda obj: obj["data"] == {"a": "1", "free": "first"})
        await pair.member.patch(CONFIGMAPS, "free", {"data": {"free": "second"}}, pair.namespace)
        manifests[0]["data"] = {"b": "2"}
        manifests[4]["data"] = {"a": "2", "free": "third"}
        configs[3] = config("server", "ServerSideApply", force=True)
        await pair.edit("w", *manifests, manifestConfigs=configs)
        await pair.copy(CONFIGMAPS, "free", lambda obj: obj["data"] == {"a": "2", "free": "second"})
        await pair.copy(CONFIGMAPS, "server", lambda obj: obj["data"] == {"a": "1"})
        assert (await pair.copy(CONFIGMAPS, "once"))["data"] == {"a": "1"}
        await pair.delete("w")
        await pair.gone("w")
        await pair.lacks(CONFIGMAPS, "server")
        assert (await pair.copy(CONFIGMAPS, "read"))["data"] == {"x": "y"}


async def test_orphans_and_objects_of_other_works_stay(pair: Pair) -> None:
    rules = [{"resource": "configmaps", "namespace": pair.namespace, "name": "kept"}]
    option = {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}}
    async with pair.at_work():
        await pair.create("w", *map(pair.config, ("kept", "shared", "own")), deleteOption=option)
        await pair.create("v", pair.config("shared"))
        await pair.said("w", "Applied", status="True")
        await pair.copy(CONFIGMAPS, "shared", lambda obj: len(obj["metadata"]["ownerReferences"]) == 2)
        assert "ownerReferences" not in (await pair.copy(CONFIGMAPS, "kept"))["metadata"]
        await pair.delete("w")
        await pair.gone("w")
        await pair.lacks(CONFIGMAPS, "own")
        await pair.copy(CONFIGMAPS, "kept")
        await pair.copy(CONFIGMAPS, "shared", lambda obj: len(obj["metadata"]["ownerReferences"]) == 1)


async def test_orphans_stay_though_the_work_became_so_while_the_member_was_away(pair: Pair) -> None:
    async with pair.at_work():
        await pair.create("w", pair.config("a"))
        await pair.said("w", "Applied", status="True")
    await pair.edit("w", pair.config("a"), deleteOption={"propagationPolicy": "Orphan"})
    await pair.delete("w")
    async with pair.at_work():
        await pair.gone("w")
        await pair.copy(CONFIGMAPS, "a", lambda obj: "ownerReferences" not in obj["metadata"])
        assert await pair.applied("w") is None


async def test_deletion_names_what_holds_an_object(pair: Pair) -> None:
    async with pair.at_work():
        await pair.create("w", pair.config("a"))
        await pair.said("w", "Applied", status="True")
        await pair.member.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": ["example.com/held"]}}, pair.namespace)
        await pair.delete("w")
        await pair.said(
            "w", "Deleting", message=f"waiting for configmaps {pair.namespace}/a (finalizers example.com/held)"
        )
        await pair.member.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": None}}, pair.namespace)
        await pair.gone("w")


async def test_existing_objects_are_refused_if_the_work_says_so(pair: Pair) -> None:
    await pair.member.create(CONFIGMAPS, pair.config("a", {"x": "theirs"}))
    async with pair.at_work():
        await pair.create("w", pair.config("a"), pair.config("b"), annotations={"multicluster/adopt": "false"})
        await pair.said("w", "Applied", ordinal=0, status="False", message="is not of this ManifestWork")
        await pair.said("w", "Applied", ordinal=1, status="True")
        assert (await pair.copy(CONFIGMAPS, "a"))["data"] == {"x": "theirs"}
        await pair.create("v", pair.config("a"))
        await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"a": "1"})


def widgets(*versions: str) -> Raw:
    """Return the CRD of a kind that is served in some versions."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    kind = Kind("works.example.com", "v1", "widgets", "Widget")
    found = crd(kind, (), {}, [])
    found["spec"]["versions"] = [
        {"name": each, "served": True, "storage": number == 0, "schema": schema} for number, each in enumerate(versions)
    ]
    return found


def widget(pair: Pair, version: str) -> Raw:
    metadata = {"name": "w", "namespace": pair.namespace, "annotations": {"multicluster/alternatives": "w"}}
    return {"apiVersion": f"works.example.com/{version}", "kind": "Widget", "metadata": metadata, "written": version}


async def test_a_kind_that_appears_is_applied_and_a_newer_version_replaces_it_without_deletion(pair: Pair) -> None:
    served = Kind("works.example.com", "v1", "widgets", "Widget")
    try:
        async with pair.at_work():
            await pair.create("w", widget(pair, "v1"), widget(pair, "v2"))
            await pair.said("w", "Applied", ordinal=1, status="False", message='have a resource type "Widget"')
            await pair.said("w", "Available", ordinal=1, status="Unknown", message="Resource meta is incomplete")
            await pair.member.create(CRDS, widgets("v1"))
            first = await pair.copy(served, "w", lambda obj: obj["written"] == "v1")
            await pair.said("w", "Applied", ordinal=1, status="True", message="version works.example.com/v1 is applied")
            live = await pair.member.get(CRDS, str(served))
            live["spec"]["versions"] = widgets("v1", "v2")["spec"]["versions"]
            await pair.member.update(CRDS, live)
            second = await pair.copy(served, "w", lambda obj: obj["written"] == "v2")
            assert second["metadata"]["uid"] == first["metadata"]["uid"]
            await pair.said("w", "Applied", ordinal=0, status="True", message="version works.example.com/v2 is applied")
            await pair.delete("w")
            await pair.gone("w")
            await pair.lacks(served, "w")
    finally:
        await unserved(pair.member, served)


async def test_objects_of_a_namespace_that_appears_are_created(pair: Pair) -> None:
    later = f"{pair.namespace}-later"
    async with pair.at_work():
        await pair.create("w", pair.config("a", namespace=later))
        await pair.said("w", "Applied", ordinal=0, status="False", message=f'namespaces "{later}" not found')
        await pair.member.create(NAMESPACES, {"metadata": {"name": later}})
        await pair.said("w", "Applied", ordinal=0, status="True")
        await pair.delete("w")
        await pair.gone("w")
    await pair.member.delete(NAMESPACES, later)


async def test_values_and_conditions_of_rules_follow_the_object(pair: Pair) -> None:
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": pair.namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "example.com/web"}]},
            },
        },
    }
    rule = {"type": "CEL", "condition": "Good", "celExpressions": ["object.spec.replicas == 2"], "message": "two"}
    identifier = {"group": "apps", "resource": "deployments", "namespace": "*", "name": "w*"}
    config = {
        "resourceIdentifier": identifier,
        "feedbackRules": [{"type": "WellKnownStatus"}],
        "conditionRules": [rule],
    }
    async with pair.at_work():
        await pair.create("w", deployment, manifestConfigs=[config])
        await pair.said("w", "Good", status="False", message="two")

        async def value() -> int:
            (manifest,) = (await pair.work("w"))["status"]["resourceStatus"]["manifests"]
            values = {each["name"]: each["fieldValue"] for each in manifest["statusFeedback"].get("values", ())}
            return int(values.get("ReadyReplicas", {}).get("integer", 0))

        async def is_ready(wanted: int) -> bool:
            return await value() == wanted

        await until(lambda: is_ready(1), what="1 as the value ReadyReplicas")
        await pair.said("w", "Progressing", status="False")
        deployment["spec"]["replicas"] = 2  # type: ignore[index]
        await pair.edit("w", deployment, manifestConfigs=[config])
        await pair.said("w", "Good", status="True")
        await until(lambda: is_ready(2), what="2 as the value ReadyReplicas")
        await pair.said("w", "Progressing", status="False")
        await asyncio.sleep(2)
        before = (await pair.work("w"))["metadata"]["resourceVersion"]
        await asyncio.sleep(3)
        assert (await pair.work("w"))["metadata"]["resourceVersion"] == before


async def test_an_executor_applies_by_its_own_rights(pair: Pair) -> None:
    await pair.member.create(SERVICE_ACCOUNTS, {"metadata": {"name": "deployer"}}, pair.namespace)
    executor = {
        "subject": {
            "type": "ServiceAccount",
            "serviceAccount": {"namespace": pair.namespace, "name": "deployer"},
        }
    }
    async with pair.at_work():
        await pair.create("w", pair.config("a"), executor=executor)
        refusal = f"not allowed to apply the resource  configmaps, {pair.namespace} a, will try again in 1m0s"
        await pair.said("w", "Applied", ordinal=0, status="False", message=refusal)
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "delete"]}
        await pair.member.create(ROLES, {"metadata": {"name": "deployer"}, "rules": [rule]}, pair.namespace)
        bound = {
            "metadata": {"name": "deployer"},
            "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": "deployer"},
            "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": pair.namespace}],
        }
        await pair.member.create(ROLE_BINDINGS, bound, pair.namespace)
        user = {"user": f"system:serviceaccount:{pair.namespace}:deployer", "groups": []}
        asked = {"verb": "delete", "group": "", "resource": "configmaps", "namespace": pair.namespace}
        await until(lambda: is_allowed(pair.member, user, asked), what="the executor may delete ConfigMaps")
        await pair.edit("w", pair.config("a", {"b": "2"}), executor=executor)
        await pair.copy(CONFIGMAPS, "a", lambda obj: obj["data"] == {"b": "2"})
        await pair.said("w", "Available", ordinal=0, status="True")
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [{**rule, "verbs": ["*"]}]}
        role["metadata"] = {"name": "more", "namespace": pair.namespace}
        await pair.edit("w", pair.config("a", {"b": "2"}), role, executor=executor)
        await pair.said("w", "Applied", ordinal=1, status="False", message="not allowed to apply the resource")

        async def may_not_delete() -> bool:
            return not await is_allowed(pair.member, user, asked)

        await pair.member.patch(ROLES, "deployer", {"rules": [{**rule, "verbs": ["get"]}]}, pair.namespace)
        await until(may_not_delete, what="the executor may not delete ConfigMaps")
        await pair.delete("w")
        await pair.said("w", "Deleting", message=f'{user["user"]}" cannot delete resource "configmaps"')
        await pair.member.patch(ROLES, "deployer", {"rules": [rule]}, pair.namespace)
        await pair.gone("w")
        await pair.lacks(CONFIGMAPS, "a")


async def test_values_of_an_object_are_read_by_the_rights_of_the_executor(pair: Pair) -> None:
    account = {"namespace": pair.namespace, "name": "nobody"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub-one", "namespace": pair.namespace}}
    config = {
        "resourceIdentifier": {"resource": "secrets", "namespace": pair.namespace, "name": "hub-one"},
        "updateStrategy": {"type": "ReadOnly"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "name", "path": ".metadata.name"}]}],
    }
    async with pair.at_work():
        executor = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}
        await pair.create("w", secret, executor=executor, manifestConfigs=[config])
        await pair.said("w", "Available", ordinal=0, status="Unknown", message="forbidden")
        (manifest,) = (await pair.work("w"))["status"]["resourceStatus"]["manifests"]
        assert manifest["statusFeedback"] == {}


async def test_a_changed_role_is_made_again(pair: Pair) -> None:
    def binding(role: str) -> Raw:
        reference = {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": role}
        metadata = {"name": "b", "namespace": pair.namespace}
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata}
        return {**head, "roleRef": reference, "subjects": []}

    async with pair.at_work():
        await pair.create("w", binding("view"))
        await pair.copy(ROLE_BINDINGS, "b")
        await pair.edit("w", binding("edit"))
        await pair.copy(ROLE_BINDINGS, "b", lambda obj: obj["roleRef"]["name"] == "edit")


async def test_a_name_that_is_too_long_is_reported(pair: Pair) -> None:
    async with pair.at_work():
        name = "a" * 189
        await pair.create(name, pair.config("a"))
        await pair.said(name, "Applied", ordinal=0, status="False", message="longer than 188 characters")
        await pair.delete(name)
        await pair.gone(name)


async def test_a_work_that_the_hub_lost_is_evicted_after_a_while_and_kept_if_it_returns(pair: Pair) -> None:
    async with pair.at_work():
        for name in ("w", "back"):
            await pair.create(name, pair.config(name))
            await pair.said(name, "Applied", status="True")
    for name in ("w", "back"):
        await pair.lose(name)

    async def is_evicting(name: str) -> bool:
        applied = await pair.applied(name)
        return bool(applied and (applied.get("status") or {}).get("evictionStartTime"))

    async with pair.at_work(eviction_seconds=5.0):
        await until(lambda: is_evicting("back"))
        await pair.create("back", pair.config("back"))
        await pair.lacks(CONFIGMAPS, "w")
        await pair.copy(CONFIGMAPS, "back")
        assert not await is_evicting("back")
        assert await pair.applied("w") is None


async def test_objects_stay_if_the_hub_was_restored_from_a_backup(pair: Pair) -> None:
    async with pair.at_work():
        await pair.create("w", pair.config("w"))
        await pair.said("w", "Applied", status="True")
    await pair.lose("w")
    applied = await pair.applied("w")
    assert applied is not None
    name = applied["metadata"]["name"]
    later = {"metadata": {"annotations": {HUB_VERSION: str(10**12)}}}
    await pair.member.patch(APPLIED_MANIFEST_WORKS, name, later)

    async def annotations() -> Raw:
        found = await pair.applied("w")
        return dict(found["metadata"].get("annotations") or {}) if found is not None else {}

    async def is_held() -> bool:
        return HUB_RESTORED in await annotations()

    async with pair.at_work(eviction_seconds=0.0):
        await until(is_held)
        await asyncio.sleep(1)
        await pair.copy(CONFIGMAPS, "w")
        await pair.create("w", pair.config("w", {"b": "2"}))
        await pair.copy(CONFIGMAPS, "w", lambda obj: obj["data"] == {"b": "2"})
        assert not await is_held()


async def test_works_write_no_objects_that_govern_works_or_the_agent(pair: Pair) -> None:
    record = {"apiVersion": APPLIED_MANIFEST_WORKS.api_version, "kind": "AppliedManifestWork"}
    record |= {"metadata": {"name": f"{pair.namespace}-x"}, "spec": {"hubHash": "x", "agentID": "x"}}
    record["spec"]["manifestWorkName"] = "x"  # type: ignore[index]
    target = {"apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "Target"}
    target["metadata"] = {"name": "t", "namespace": pair.namespace}  # type: ignore[assignment]
    link = {**target, "apiVersion": "multicluster.flotilla/v1alpha1", "kind": "ServiceLink"}
    async with pair.at_work():
        await pair.create("w", record, target, link, pair.config("a"))
        for ordinal in range(3):
            await pair.said("w", "Applied", ordinal=ordinal, status="False", message="govern ManifestWorks")
        await pair.said("w", "Applied", ordinal=3, status="True")
        assert await pair.applied("x") is None
        with pytest.raises(NotFound):
            await pair.member.get(APPLIED_MANIFEST_WORKS, f"{pair.namespace}-x")
