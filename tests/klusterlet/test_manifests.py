"""Contents of a ManifestWork: order, configuration, ownership, alternatives."""

from typing import Any

import pytest

from agent.api.kinds import DEPLOYMENTS, NAMESPACES
from agent.klusterlet.manifests import Identity, InvalidExecutor, Manifest, Meta, Work, age, skipped

Raw = dict[str, Any]


def manifest(kind: str, name: str = "web", api_version: str = "v1", **metadata: Any) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


def work(*manifests: Raw, **spec: Any) -> Work:
    return Work({"metadata": {"name": "w", "generation": 1}, "spec": {"workload": {"manifests": manifests}, **spec}})


def test_manifests_are_applied_by_kind_and_equal_kinds_as_written() -> None:
    kinds = ["Widget", "Deployment", "APIService", "Service", "Secret", "ConfigMap", "NetworkPolicy", "Role", "Job"]
    kinds += ["CustomResourceDefinition", "Namespace", "PersistentVolume", "ValidatingAdmissionPolicy", ""]
    ordered = [each.kind for each in work(*map(manifest, kinds)).manifests]
    assert ordered == [
        *("CustomResourceDefinition", "Namespace", "PersistentVolume", "Role", "NetworkPolicy", "Secret", "ConfigMap"),
        *("Service", "Deployment", "Job", "APIService", "ValidatingAdmissionPolicy", "Widget", ""),
    ]


def config(name: str = "web", namespace: str = "shop", **rest: Any) -> Raw:
    named = {"group": "apps", "resource": "deployments", "name": name, "namespace": namespace}
    return {"resourceIdentifier": named, **rest}


META = Meta(0, "apps", "v1", "Deployment", "deployments", "shop", "web")


@pytest.mark.parametrize(
    ("name", "namespace", "matches"),
    [
        ("web", "shop", True),
        ("w*", "shop", True),
        ("*b", "*", True),
        ("*", "s*p", True),
        ("w*e*b", "shop", True),
        ("web*web", "shop", False),
        ("we", "shop", False),
        ("w.b", "shop", False),
        ("", "shop", False),
    ],
)
def test_a_configuration_matches_names_with_asterisks(name: str, namespace: str, *, matches: bool) -> None:
    found = work(manifestConfigs=[config(name, namespace, updateStrategy={"type": "ReadOnly"})]).config(META)
    assert (found.strategy == "ReadOnly") == matches


def test_each_part_of_a_configuration_comes_from_the_first_match_that_has_it() -> None:
    configs = [
        config("*", feedbackRules=[{"type": "WellKnownStatus"}]),
        config(updateStrategy={"type": "CreateOnly"}),
        config(updateStrategy={"type": "ReadOnly"}, conditionRules=[{"condition": "Good"}]),
    ]
    found = work(manifestConfigs=configs).config(META)
    assert (found.strategy, len(found.feedback), len(found.conditions)) == ("CreateOnly", 1, 1)
    assert work().config(META).strategy == "Update"


@pytest.mark.parametrize(
    ("option", "owns"),
    [
        (None, True),
        ({"propagationPolicy": "Foreground"}, True),
        ({"propagationPolicy": "Orphan"}, False),
        ({"propagationPolicy": "SelectivelyOrphan"}, True),
        (
            {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {
                    "orphaningRules": [{"group": "apps", "resource": "deployments", "namespace": "shop", "name": "web"}]
                },
            },
            False,
        ),
        (
            {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": [{"resource": "deployments", "name": "*"}]},
            },
            True,
        ),
    ],
)
def test_the_delete_option_decides_what_a_work_owns(option: Raw | None, *, owns: bool) -> None:
    found = work(**({"deleteOption": option} if option else {}))
    assert found.owns(Identity("apps", "deployments", "shop", "web")) == owns


def test_objects_of_complete_manifests_are_completed_and_the_first_of_several_counts() -> None:
    def state(name: str, *conditions: tuple[str, str]) -> dict[str, Any]:
        meta = {"group": "", "version": "v1", "kind": "Job", "resource": "jobs", "namespace": "shop", "name": name}
        return {"resourceMeta": meta, "conditions": [{"type": type, "status": state} for type, state in conditions]}

    complete = ("Complete", "True")
    states = [state("a", complete), state("b", ("Complete", "False")), state("c"), state("c", complete)]
    raw = {"metadata": {}, "status": {"resourceStatus": {"manifests": states}}}
    assert Work(raw).completed == {Identity("", "jobs", "shop", "a")}
    assert Work({"metadata": {}}).completed == frozenset()
    assert not Work(raw).is_complete
    assert Work({"metadata": {}, "status": {"conditions": states[0]["conditions"]}}).is_complete


def test_versions_are_sorted_by_kubernetes_priority() -> None:
    versions = ["v11", "v1beta2", "v1", "other", "v1beta1", "v2", "v1alpha1"]
    assert sorted(versions, key=age) == ["other", "v1alpha1", "v1beta1", "v1beta2", "v1", "v2", "v11"]


def test_of_alternatives_the_newest_served_version_is_applied() -> None:
    notes = {"multicluster/alternatives": "widget"}
    found = [
        Manifest(number, manifest("Widget", api_version=f"x.io/{version}", annotations=notes))
        for number, version in enumerate(("v1", "v2", "v1beta1"))
    ]
    single = Manifest(3, manifest("ConfigMap", annotations=notes))
    none = skipped([*found, single], {})
    assert {number: each.api_version for number, each in none.items()} == {0: "x.io/v2", 2: "x.io/v2"}
    served = skipped(found, {0: DEPLOYMENTS, 2: DEPLOYMENTS})
    assert {number: each.api_version for number, each in served.items()} == {1: "x.io/v1", 2: "x.io/v1"}


def test_a_body_has_no_status_no_uid_and_no_namespace_of_a_cluster_scoped_kind() -> None:
    notes = {"multicluster/alternatives": "x", "a": "b"}
    raw = manifest("Namespace", namespace="x", uid="1", annotations=notes) | {"status": {"phase": "x"}}
    assert Manifest(0, raw).body(NAMESPACES) == manifest("Namespace", annotations={"a": "b"})
    assert Manifest(0, raw).meta(NAMESPACES).namespace == ""


def test_the_executor_is_a_service_account() -> None:
    account = {"serviceAccount": {"namespace": "shop", "name": "deployer"}}
    assert work(executor={"subject": account}).executor == "system:serviceaccount:shop:deployer"
    assert work().executor == ""


@pytest.mark.parametrize("executor", [{}, {"subject": {"type": "ServiceAccount"}}])
def test_an_executor_without_an_account_is_refused(executor: dict[str, Any]) -> None:
    with pytest.raises(InvalidExecutor, match="lacks a namespace or name"):
        _ = work(executor=executor).executor
