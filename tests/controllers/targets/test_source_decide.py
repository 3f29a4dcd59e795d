"""Rights that a Source grants."""

from typing import Any

from agent.api.kinds import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS
from agent.api.roles import FEATURES, NAMED_FEATURES
from agent.targets.source.decide import (
    Create,
    Delete,
    Patch,
    Roles,
    SourceAndBindings,
    decide,
    flaw,
    granted,
    granted_accounts,
    service_account_key,
    subjects,
    wanted_bindings,
)

ROLES = Roles("source-role", "viewer-role")
KEY = ("default", "cd")
CLUSTER_KEY = ("", "cd")


def source(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "cd", "namespace": "default", "uid": "u1"}, "spec": spec}


def stored(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest as the API server stores it."""
    return {**manifest, "metadata": {**manifest["metadata"], "uid": "b1", "resourceVersion": "5"}}


def view(key: tuple[str, str], obj: dict[str, Any] | None, *bindings: tuple[Any, dict[str, Any]]) -> SourceAndBindings:
    found: dict[Any, dict[str, Any]] = {ROLE_BINDINGS: {}, CLUSTER_ROLE_BINDINGS: {}}
    for kind, binding in bindings:
        found[kind][binding["metadata"]["name"]] = binding
    return SourceAndBindings(key, obj, found, ROLES)


def everything(key: tuple[str, str], obj: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    return [(kind, stored(manifest)) for (kind, _), manifest in wanted_bindings(key, obj, ROLES).items()]


def test_a_source_is_bound_to_the_source_role_in_its_namespace_and_to_the_viewer_everywhere() -> None:
    first, second = decide(view(KEY, source(serviceAccountName="cd")))[:2]
    assert isinstance(first, Create)
    assert isinstance(second, Create)
    assert first.manifest["kind"] == "RoleBinding"
    assert first.manifest["metadata"]["name"] == "admiralty-source-cd"
    assert first.manifest["metadata"]["namespace"] == "default"
    assert first.manifest["roleRef"]["name"] == "source-role"
    assert second.manifest["kind"] == "ClusterRoleBinding"
    assert second.manifest["metadata"]["name"] == "admiralty-source-default-cd-cluster-summary-viewer"
    assert second.manifest["roleRef"]["name"] == "viewer-role"


def test_what_is_cluster_scoped_is_not_owned_by_a_source_in_a_namespace() -> None:
    first, second = [manifest for _, manifest in everything(KEY, source(userName="u"))][:2]
    assert first["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert "ownerReferences" not in second["metadata"]


def test_a_cluster_source_is_bound_everywhere() -> None:
    bindings = [manifest for _, manifest in everything(CLUSTER_KEY, source(userName="u"))]
    assert {each["kind"] for each in bindings} == {"ClusterRoleBinding"}
    first, second = bindings[:2]
    assert first["metadata"]["name"] == "admiralty-cluster-source-cd"
    assert second["metadata"]["name"] == "admiralty-cluster-source-cd-cluster-summary-viewer"
    assert first["metadata"]["ownerReferences"][0]["kind"] == "ClusterSource"


def test_the_service_account_comes_before_the_user() -> None:
    assert subjects(KEY, source(userName="spiffe://c1", serviceAccountName="cd")) == [
        {"kind": "ServiceAccount", "name": "cd", "namespace": "default"},
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "spiffe://c1"},
    ]


def test_nothing_is_done_when_all_is_there() -> None:
    obj = source(serviceAccountName="cd", userName="u")
    assert decide(view(KEY, obj, *everything(KEY, obj))) == []


def test_other_subjects_and_missing_labels_are_repaired_and_labels_of_others_stay() -> None:
    obj = source(userName="u")
    (kind, binding), *rest = everything(KEY, obj)
    binding["metadata"]["labels"] = {"team": "x"}
    binding["subjects"] = [{"kind": "User", "name": "intruder"}]
    (action,) = decide(view(KEY, obj, (kind, binding), *rest))
    assert isinstance(action, Patch)
    assert action.body["metadata"] == {"labels": {"multicluster/source": "default-cd"}}
    assert action.body["subjects"] == subjects(KEY, obj)


def test_a_binding_to_another_role_is_made_again() -> None:
    obj = source(userName="u")
    (kind, binding), *rest = everything(KEY, obj)
    binding["roleRef"] = {**binding["roleRef"], "name": "old-role"}
    first, second = decide(view(KEY, obj, (kind, binding), *rest))
    assert first == Delete(ROLE_BINDINGS, ("default", "admiralty-source-cd"), "b1")
    assert isinstance(second, Create)


def test_a_source_that_does_not_say_what_it_may_use_has_all_but_what_has_to_be_named() -> None:
    obj = source(userName="u")
    assert len(everything(KEY, obj)) == 2 + len(FEATURES) - len(NAMED_FEATURES)
    obj["spec"]["allow"] = list(FEATURES)
    assert len(everything(KEY, obj)) == 2 + len(FEATURES)


def test_all_bindings_go_with_the_source() -> None:
    bindings = everything(KEY, source(userName="u"))
    assert [type(action) for action in decide(view(KEY, None, *bindings))] == [Delete] * len(bindings)


def test_a_source_that_names_nobody_any_more_loses_its_rights() -> None:
    bindings = everything(KEY, source(userName="u"))
    assert [type(action) for action in decide(view(KEY, source(), *bindings))] == [Delete] * len(bindings)


def features(key: tuple[str, str], obj: dict[str, Any]) -> dict[str, str]:
    """Return the bindings to roles of features, with these roles."""
    return {
        manifest["metadata"]["name"]: manifest["roleRef"]["name"]
        for _, manifest in everything(key, obj)
        if manifest["roleRef"]["name"] not in (ROLES.source, ROLES.viewer)
    }


def test_a_source_that_says_nothing_of_features_is_allowed_all_of_them() -> None:
    names = ("pods", "services", "volumes", "accounts")
    obj = source(userName="u")
    assert features(KEY, obj) == {f"multicluster-source-cd-{name}": f"source-role-{name}" for name in names}
    assert granted(KEY, obj, ROLES) == "may run pods here (ClusterRole source-role), with services, volumes, accounts"
    assert features(CLUSTER_KEY, obj) == {
        f"multicluster-cluster-source-cd-{name}": f"source-role-{name}" for name in names
    }


def test_a_source_is_bound_to_the_features_that_it_allows_and_to_no_others() -> None:
    obj = source(userName="u", allow=["volumes"])
    assert set(features(KEY, obj).values()) == {"source-role-pods", "source-role-volumes"}
    none = source(userName="u", allow=[])
    assert set(features(KEY, none).values()) == {"source-role-pods"}
    assert granted(KEY, none, ROLES) == "may run pods here (ClusterRole source-role)"
    gone = [action for action in decide(view(KEY, none, *everything(KEY, obj))) if isinstance(action, Delete)]
    assert [action.key for action in gone] == [("default", "multicluster-source-cd-volumes")]


def test_no_source_has_the_binding_of_another_ones_feature() -> None:
    bound = {manifest["metadata"]["name"] for _, manifest in everything(KEY, source(userName="u"))}
    other = {"metadata": {"name": "cd-volumes", "namespace": "default", "uid": "u2"}, "spec": {"userName": "u"}}
    others = {name for _, name in wanted_bindings(("default", "cd-volumes"), other, ROLES)}
    assert not bound & others


def test_a_source_of_the_account_default_works_and_is_told_what_that_means() -> None:
    told = granted(KEY, source(serviceAccountName="default"), ROLES)
    assert "spec.serviceAccountName is default, the account of every pod there that names none" in told
    whole = source(serviceAccount={"name": "default", "namespace": "team"})
    assert "spec.serviceAccount.name is default" in granted(CLUSTER_KEY, whole, ROLES)


def test_a_source_that_names_nobody_is_told_which_fields_to_set() -> None:
    told = "spec names nobody who may run pods here: set userName, serviceAccountName, or both"
    assert flaw(KEY, source()) == told
    assert "userName, serviceAccount, or both" in (flaw(CLUSTER_KEY, source()) or "")
    assert flaw(KEY, source(userName="u")) is None


def test_a_service_account_of_a_cluster_source_needs_name_and_namespace() -> None:
    half = source(userName="u", serviceAccount={"name": "cd"})
    assert service_account_key(CLUSTER_KEY, half) is None
    assert (flaw(CLUSTER_KEY, half) or "").startswith("spec.serviceAccount.namespace is missing")
    whole = source(serviceAccount={"name": "cd", "namespace": "team"})
    assert service_account_key(CLUSTER_KEY, whole) == ("team", "cd")
    assert flaw(CLUSTER_KEY, whole) is None


def test_an_account_is_granted_rights_by_any_binding_that_is_left() -> None:
    user = "system:serviceaccount:other:web"
    bindings = everything(KEY, source(serviceAccountName="cd", userName=user))
    both = {("default", "cd"), ("other", "web")}
    assert granted_accounts(view(KEY, None, *bindings)) == both
    for binding in bindings:
        assert granted_accounts(view(KEY, None, binding)) == both
    assert granted_accounts(view(KEY, None)) == frozenset()
