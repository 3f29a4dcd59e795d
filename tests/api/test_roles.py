from typing import Any

from agent.api.kinds import ENDPOINT_SLICES, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICE_ACCOUNTS
from agent.api.roles import (
    CLUSTER_SUMMARY_VIEWER,
    EVERYTHING,
    FEATURES,
    SOURCE,
    cluster_roles,
    cluster_summary_viewer_role,
    feature_cluster_roles,
    feature_of,
    role_of,
    source_cluster_role,
    source_rules_cluster_role,
)


def granted(role: dict[str, Any]) -> dict[str, set[str]]:
    found = {}
    for rule in role["rules"]:
        # Two API groups have pods; the core group is named without a suffix.
        group = ".metrics.k8s.io" if rule["apiGroups"] == ["metrics.k8s.io"] else ""
        found.update({f"{resource}{group}": set(rule["verbs"]) for resource in rule["resources"]})
    return found


WRITE = {"get", "list", "watch", "create", "update", "delete"}


def test_a_source_gets_exactly_the_rules_that_it_has_with_admiralty() -> None:
    assert granted(source_cluster_role()) == {
        "podchaperons": WRITE | {"deletecollection", "patch"},
        "podchaperons/finalizers": {"update"},
        "sources/finalizers": {"update"},
        "pods/finalizers": {"update"},
        "configmaps": WRITE,
        "secrets": WRITE,
        "services": WRITE,
        "ingresses": WRITE,
        "pods": {"list"},
        "pods/log": {"get"},
        "pods/exec": {"create"},
    }


def test_each_feature_beyond_that_has_a_role_of_its_own() -> None:
    found = {role["metadata"]["name"]: granted(role) for role in feature_cluster_roles()}
    assert found == {
        "multicluster-scheduler-source-pods": {
            "events": {"list", "watch"},
            "serviceaccounts": {"list", "watch"},
            "persistentvolumeclaims": {"list", "watch"},
            "resourcequotas": {"list", "watch"},
            "pods": {"get"},
            "pods/attach": {"create"},
            "pods/portforward": {"create"},
            "pods.metrics.k8s.io": {"list"},
        },
        "multicluster-scheduler-source-services": {
            "endpointslices": {"list", "watch", "create", "patch", "delete"},
            "serviceexports": {"get", "list", "create", "delete"},
            "serviceimports": {"get"},
        },
        "multicluster-scheduler-source-volumes": {"persistentvolumeclaims": {"get", "create", "patch", "delete"}},
        "multicluster-scheduler-source-accounts": {"serviceaccounts": WRITE - {"list", "watch"}},
        "multicluster-scheduler-source-skupper": {
            "listeners": {"list", "create", "patch", "delete"},
            "connectors": {"list", "create", "patch", "delete"},
            "sites": {"list", "create"},
            "accesstokens": {"get", "list", "create", "delete"},
            "links": {"list"},
        },
        "multicluster-scheduler-source-linkerd": {"links": {"list"}},
        "multicluster-scheduler-source-mcs": {
            "serviceexports": {"watch"},
            "serviceexports/status": {"patch"},
            "serviceimports": {"list", "watch", "create", "patch", "delete"},
            "serviceimports/status": {"patch"},
        },
        "multicluster-scheduler-source-fence": {"leases": {"get", "create", "update"}},
        "multicluster-scheduler-source-gateway": {"gatewaypeers": {"list", "watch", "create", "patch", "delete"}},
    }


def test_no_role_is_narrowed_before_the_others_hold_its_verbs() -> None:
    ordered = [role["metadata"]["name"] for role in cluster_roles()]
    assert ordered.index("multicluster-scheduler-source") == len(FEATURES)


def test_what_is_missing_leads_to_the_feature_and_the_role_to_look_at() -> None:
    kinds = (PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, ENDPOINT_SLICES, PODS)
    assert [feature_of(kind) for kind in kinds] == ["volumes", "accounts", "services", ""]
    assert role_of(SOURCE[0]) == "multicluster-scheduler-source"
    assert role_of(FEATURES["volumes"][0]) == "multicluster-scheduler-source-volumes"
    assert role_of(CLUSTER_SUMMARY_VIEWER[0]) == "multicluster-scheduler-cluster-summary-viewer"


def test_rules_for_other_pods_are_granted_apart_and_to_nobody_by_default() -> None:
    apart = granted(source_rules_cluster_role())
    assert apart.keys() == {"roles", "rolebindings", "networkpolicies"}
    assert not apart.keys() & granted(source_cluster_role()).keys()
    assert not {"escalate", "bind"} & {verb for verbs in apart.values() for verb in verbs}


def test_a_source_cannot_make_pods_or_touch_the_status_of_chaperons() -> None:
    rules = granted(source_cluster_role())
    assert "create" not in rules["pods"]
    assert "podchaperons/status" not in rules


def test_no_rule_has_a_wildcard_and_each_names_its_group() -> None:
    for role in cluster_roles():
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert len(rule["apiGroups"]) == 1


def test_no_verb_is_granted_twice() -> None:
    keys = [(grant.kind, grant.sub, grant.verb) for grant in EVERYTHING]
    assert len(keys) == len(set(keys))


def test_a_viewer_reads_cluster_summaries_and_the_agents_lease_and_gives_signs_of_life_and_nothing_else() -> None:
    read = {"get", "list", "watch"}
    summaries, *leases = cluster_summary_viewer_role()["rules"]
    assert (summaries["resources"], set(summaries["verbs"])) == (["clustersummaries"], read)
    assert [(rule["resources"], rule["resourceNames"], set(rule["verbs"])) for rule in leases] == [
        (["leases"], ["admiralty-controller-manager"], {"list"}),
        (["leases"], ["multicluster-sources"], {"get", "patch"}),
    ]


def test_the_roles_have_the_names_that_sources_are_bound_to() -> None:
    assert source_cluster_role()["metadata"]["name"] == "multicluster-scheduler-source"
    assert cluster_summary_viewer_role()["metadata"]["name"] == "multicluster-scheduler-cluster-summary-viewer"
