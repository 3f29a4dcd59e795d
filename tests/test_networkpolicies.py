"""NetworkPolicies admit the peers that the API reference describes."""

from typing import Any

import pytest

from tests.networkpolicies import Workload, lets_in, selecting

Raw = dict[str, Any]
WEB = Workload("team", {"app": "web"})
CLIENT, STRANGER = Workload("team", {"app": "client"}), Workload("team", {"app": "stranger"})
MONITOR = Workload("ops", {"app": "monitor"}, {"name": "ops"})
OF_CLIENTS: Raw = {"podSelector": {"matchLabels": {"app": "client"}}}
OF_MONITORS: Raw = {
    "namespaceSelector": {"matchLabels": {"name": "ops"}},
    "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["monitor"]}]},
}


def policy(name: str, *rules: Raw, app: str = "", namespace: str = "team", kind: str = "Ingress") -> Raw:
    selector = {"matchLabels": {"app": app}} if app else {}
    spec = {"podSelector": selector, "policyTypes": [kind], "ingress": list(rules)}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


DENY = policy("default-deny")


@pytest.mark.parametrize(
    ("policies", "callers"),
    [
        ([], "client stranger monitor"),
        ([DENY], ""),
        ([DENY, policy("allow", {"from": [OF_CLIENTS]}, app="web")], "client"),
        ([DENY, policy("allow", {"from": [OF_CLIENTS]}, app="other")], ""),
        ([policy("allow", {"from": [OF_CLIENTS, OF_MONITORS]}, app="web")], "client monitor"),
        ([policy("allow", {"from": [{"namespaceSelector": {}}]})], "client stranger monitor"),
        ([policy("allow", {"from": [{"podSelector": {}}]})], "client stranger"),
        ([DENY, policy("allow", {})], "client stranger monitor"),
        ([DENY, policy("allow", {"ports": [{"port": 8080, "protocol": "TCP"}]})], "client stranger monitor"),
        ([DENY, policy("allow", {"ports": [{"port": 8000, "endPort": 8100}]})], "client stranger monitor"),
        ([DENY, policy("allow", {"ports": [{"port": 8081}]})], ""),
        ([DENY, policy("allow", {"ports": [{"port": 8080, "protocol": "UDP"}]})], ""),
        ([policy("default-deny", namespace="ops")], "client stranger monitor"),
        ([policy("default-deny", kind="Egress")], "client stranger monitor"),
    ],
    ids=[
        "no policy",
        "default deny",
        "allow by label",
        "allow others",
        "allow pods of another namespace",
        "all namespaces",
        "the policy's own namespace",
        "allow all",
        "port",
        "range of ports",
        "another port",
        "another protocol",
        "policy of another namespace",
        "policy for egress",
    ],
)
def test_who_may_call(policies: list[Raw], callers: str) -> None:
    found = {"client": CLIENT, "stranger": STRANGER, "monitor": MONITOR}
    assert [name for name, caller in found.items() if lets_in(policies, WEB, caller, 8080)] == callers.split()


def test_a_pod_that_lost_its_label_is_selected_by_default_deny_alone() -> None:
    policies = [DENY, policy("allow-web", {"from": [OF_CLIENTS]}, app="web")]
    bare = WEB._replace(labels={})
    assert [each["metadata"]["name"] for each in selecting(policies, bare)] == ["default-deny"]
    assert not lets_in(policies, bare, CLIENT, 8080)


@pytest.mark.parametrize("rule", [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}, {"ports": [{"port": "http"}]}])
def test_what_labels_do_not_decide_is_an_error(rule: Raw) -> None:
    with pytest.raises(ValueError, match=r"about addresses|has no number"):
        lets_in([policy("allow", rule)], WEB, CLIENT, 8080)
