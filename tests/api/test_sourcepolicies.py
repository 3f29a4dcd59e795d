"""Policies about sources identify them by Source objects; a cluster without Sources works as before."""

from agent.api.admission import policies
from agent.api.roles import EVERYTHING, SOURCE_RULES
from agent.api.sourcepolicies import CLUSTER_FENCES, CLUSTER_TOKENS, FENCES, TOKENS, WRITES, specs


def test_each_is_about_the_sources_that_there_are_and_about_nobody_where_there_are_none() -> None:
    found = {
        each["metadata"]["name"]: each["spec"]
        for each in policies("agent", "home", "webhook")
        if "Binding" in each["kind"]
    }
    for name in (WRITES, TOKENS, CLUSTER_TOKENS, FENCES, CLUSTER_FENCES):
        reference = {"selector": {}, "parameterNotFoundAction": "Allow"}
        assert found[name] == {"policyName": name, "validationActions": ["Deny"], "paramRef": reference}
    assert {name: each.spec["paramKind"]["kind"] for name, each in specs("home").items()} == {
        WRITES: "ClusterSource",
        TOKENS: "Source",
        CLUSTER_TOKENS: "ClusterSource",
        FENCES: "Source",
        CLUSTER_FENCES: "ClusterSource",
    }


def test_kube_system_does_not_depend_on_our_crds() -> None:
    for each in specs("home").values():
        assert each.spec["failurePolicy"] == "Ignore"
        assert each.spec["matchConditions"][0]["name"] == "is-no-component"


def test_all_that_roles_let_sources_change_is_guarded_in_the_clusters_own_namespaces() -> None:
    constraints = specs("home")[WRITES].spec["matchConstraints"]
    (places,) = constraints["namespaceSelector"]["matchExpressions"]
    assert places["values"] == ["home", "kube-system"]
    guarded = {
        (rule["apiGroups"][0], resource) for rule in constraints["resourceRules"] for resource in rule["resources"]
    }
    writes = {
        (grant.kind.group, grant.resource)
        for grant in (*EVERYTHING, *SOURCE_RULES)
        if grant.verb in ("create", "update", "patch", "delete") and grant.sub != "finalizers"
    }
    # The Leases that a source may write are restricted in every cluster.
    assert writes - guarded == {("coordination.k8s.io", "leases")}


def test_an_agent_in_kube_system_names_it_once() -> None:
    (places,) = specs("kube-system")[WRITES].spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert places["values"] == ["kube-system"]
