"""Policies about accounts of delegates: the requests that they match, and the accounts that they refuse."""

import re

import pytest

from agent.api.accountpolicies import CLUSTER_SOURCE, OWN, OWN_ACCOUNTS, SOURCE, specs
from agent.api.admission import policies
from agent.api.hookroles import ACCOUNTS as HOOKS
from agent.api.ownroles import ACCOUNTS

AGENT = "system:serviceaccount:home:agent"
FOUND = specs(AGENT, "home", "agent,webhook")


@pytest.mark.parametrize("name", FOUND)
def test_each_concerns_only_pods_that_the_agent_creates(name: str) -> None:
    spec = FOUND[name].spec
    assert spec["matchConditions"][0]["expression"] == f"request.userInfo.username == '{AGENT}'"
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["CREATE"])
    (validation,) = spec["validations"]
    assert validation["reason"] == "Forbidden"
    assert validation["messageExpression"].startswith("'spec.serviceAccountName of pod ' + object.metadata.name")
    assert "have the pod name another service account" in validation["messageExpression"]
    for text in (validation["expression"], validation["messageExpression"]):
        assert text.count("'") % 2 == 0
        assert text.count("(") == text.count(")")


def test_no_policy_with_parameters_refuses_pods_while_its_crd_is_missing() -> None:
    # The API server reads the parameters first, and reports an error for the pods of all users.
    every = [each for each in policies(AGENT, "home", "webhook") if "Binding" not in each["kind"]]
    by_name = {each["metadata"]["name"]: each["spec"] for each in every}
    parametrised = {name: spec["failurePolicy"] for name, spec in by_name.items() if "paramKind" in spec}
    assert {SOURCE, CLUSTER_SOURCE} <= set(parametrised)
    assert set(parametrised.values()) == {"Ignore"}
    assert by_name[OWN]["failurePolicy"] == "Fail"


def test_accounts_of_sources_are_parameters_and_a_cluster_without_sources_has_none() -> None:
    bound = {
        each["metadata"]["name"]: each["spec"]
        for each in policies(AGENT, "home", "webhook")
        if "Binding" in each["kind"]
    }
    for name, kind in ((SOURCE, "Source"), (CLUSTER_SOURCE, "ClusterSource")):
        assert FOUND[name].spec["paramKind"]["kind"] == kind
        assert bound[name]["paramRef"] == {"selector": {}, "parameterNotFoundAction": "Allow"}
    assert "paramRef" not in bound[OWN]


def test_all_processes_and_hooks_of_a_release_are_named() -> None:
    named = {account.name for account in (*ACCOUNTS, *HOOKS)}
    assert {f"flotilla-{name}" for name in (*named, "test")} == set(OWN_ACCOUNTS)
    expression = FOUND[OWN].spec["validations"][0]["expression"]
    assert re.findall(r"'([^']*)'", expression) == ["home", "agent,webhook", ","]
