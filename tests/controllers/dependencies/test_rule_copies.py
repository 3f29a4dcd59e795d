from typing import Any

from agent.api import names
from agent.api.names.links import ADMIT_GATEWAY
from agent.dependencies.rules import copies
from agent.model import sharedcopies

Raw = dict[str, Any]
OURS = {names.LABEL_PARENT_CLUSTER_UID: "uid-cd"}
APP = "multicluster/U_app"


def original(kind: str, **fields: Any) -> Raw:
    return {"kind": kind, "metadata": {"name": "x", "namespace": "team", "uid": "u1", "resourceVersion": "1"}, **fields}


def policy(**spec: Any) -> Raw:
    found = copies.network_policy(original("NetworkPolicy", spec=spec), "cd", "uid-cd")["spec"]
    assert isinstance(found, dict)
    return found


def test_a_policy_selects_delegates_of_its_own_source_only() -> None:
    assert policy(podSelector={"matchLabels": {"app": "web"}})["podSelector"] == {"matchLabels": {APP: "web", **OURS}}
    assert policy(podSelector={})["podSelector"] == {"matchLabels": OURS}
    expression = {"key": "app", "operator": "In", "values": ["web"]}
    found = policy(podSelector={"matchExpressions": [expression]})["podSelector"]
    assert found == {"matchExpressions": [{**expression, "key": APP}], "matchLabels": OURS}


def test_peers_of_the_namespace_are_delegates_and_those_of_others_may_be_either() -> None:
    own, block = {"podSelector": {"matchLabels": {"app": "db"}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}
    namespaces = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    dns = {"namespaceSelector": namespaces, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    whole, everybody = {"namespaceSelector": namespaces}, {"namespaceSelector": {}, "podSelector": {}}
    ports = [{"port": 53, "protocol": "UDP"}]
    found = policy(
        podSelector={},
        policyTypes=["Egress", "Ingress"],
        egress=[{"to": [own, block, dns, whole, everybody], "ports": ports}, {}],
        ingress=[{"from": [own]}],
    )
    rewritten = {"podSelector": {"matchLabels": {APP: "db", **OURS}}}
    delegates = {"matchLabels": {"multicluster/U_k8s-app": "kube-dns", **OURS}}
    there = {"namespaceSelector": namespaces, "podSelector": delegates}
    assert found["egress"] == [{"to": [rewritten, block, dns, there, whole, everybody], "ports": ports}, {}]
    assert found["ingress"] == [{"from": [rewritten]}]
    assert found["policyTypes"] == ["Egress", "Ingress"]


def test_a_negation_over_pods_of_other_namespaces_matches_no_delegate_by_its_rewritten_labels() -> None:
    expression = {"key": "role", "operator": "NotIn", "values": ["guest"]}
    peer = {"namespaceSelector": {}, "podSelector": {"matchExpressions": [expression]}}
    (rule,) = policy(podSelector={}, ingress=[{"from": [peer]}])["ingress"]
    no_delegate = {"key": names.LABEL_PARENT_UID, "operator": "DoesNotExist"}
    assert rule["from"] == [
        {**peer, "podSelector": {"matchExpressions": [expression, no_delegate]}},
        {
            **peer,
            "podSelector": {"matchExpressions": [{**expression, "key": "multicluster/U_role"}], "matchLabels": OURS},
        },
    ]


def test_while_older_delegates_are_in_a_target_policies_select_by_the_contracts_labels() -> None:
    spec = {"podSelector": {"matchLabels": {"app": "web"}}}
    found = copies.network_policy(original("NetworkPolicy", spec=spec), "cd", "uid-cd", exact=False)["spec"]
    assert found["podSelector"] == {"matchLabels": {names.PREFIX + "app": "web", **OURS}}


def test_labels_that_keep_their_key_on_delegates_keep_it_in_selectors() -> None:
    manifest = original("NetworkPolicy", spec={"podSelector": {"matchLabels": {"app": "web", "team": "a"}}})
    manifest["metadata"]["annotations"] = {names.SHORT_PREFIX + names.NO_PREFIX_REGEXP: "^team="}
    copy = copies.network_policy(manifest, "cd", "uid-cd")
    assert copy["spec"]["podSelector"] == {"matchLabels": {APP: "web", "team": "a", **OURS}}
    assert names.ANNOTATION_IS_DELEGATE in copy["metadata"]["annotations"]


def test_a_policy_that_admits_gateways_adds_them_in_targets_to_whom_its_rules_let_in() -> None:
    some, everybody = (
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 80}]},
        {"ports": [{"port": 81}]},
    )
    gateways = {
        "namespaceSelector": {},
        "podSelector": {
            "matchLabels": {"app.kubernetes.io/name": "flotilla", "app.kubernetes.io/component": "gateway"}
        },
    }
    for value, want in (("true", [*some["from"], gateways]), ("false", some["from"]), (None, some["from"])):
        manifest = original("NetworkPolicy", spec={"podSelector": {}, "ingress": [some, everybody], "egress": [{}]})
        manifest["metadata"]["annotations"] = {names.SHORT_PREFIX + ADMIT_GATEWAY: value} if value else {}
        found = copies.network_policy(manifest, "cd", "uid-cd")["spec"]
        assert found["ingress"] == [{**some, "from": want}, everybody]
        assert found["egress"] == [{}]
    nobody = original("NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress"]})
    nobody["metadata"]["annotations"] = {names.SHORT_PREFIX + ADMIT_GATEWAY: "true"}
    assert "ingress" not in copies.network_policy(nobody, "cd", "uid-cd")["spec"]


def account(name: str, **fields: str) -> Raw:
    return {"kind": "ServiceAccount", "name": name, **fields}


def test_a_binding_keeps_service_accounts_of_its_namespace_and_nobody_else() -> None:
    people = [{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "ops"}, account("x", namespace="other")]
    subjects = [*people, account("web", namespace="team"), account("db")]
    found = original("RoleBinding", subjects=subjects, roleRef={"kind": "Role", "name": "reader"})
    copy = copies.binding(found, "cd", "uid-cd")
    assert copy["subjects"] == [account("web", namespace="team"), account("db")]
    assert copy["roleRef"] == {"kind": "Role", "name": "reader"}
    assert copies.accounts(found) == {"web", "db"}
    assert copies.accounts(original("RoleBinding")) == set()


def test_a_binding_that_refers_to_another_role_is_made_again() -> None:
    found = original("RoleBinding", subjects=[account("web")], roleRef={"kind": "Role", "name": "reader"})
    copy = copies.binding(found, "cd", "uid-cd")
    assert not sharedcopies.must_be_replaced(copy, copy)
    assert sharedcopies.must_be_replaced(copy, {**copy, "roleRef": {"kind": "Role", "name": "writer"}})


def test_a_cluster_role_is_each_clusters_own() -> None:
    assert copies.role_of(original("RoleBinding", roleRef={"kind": "ClusterRole", "name": "view"})) == ""
    assert copies.role_of(original("RoleBinding", roleRef={"kind": "Role", "name": "reader"})) == "reader"
