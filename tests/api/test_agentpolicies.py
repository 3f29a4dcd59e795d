"""Policies about the agent match no other user, and report each refusal with its reason."""

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.agentpolicies import NAMESPACES, NODES, SECRETS, in_base64, specs
from agent.api.ownroles import AGENT as ACCOUNT
from agent.model.virtualnode import virtual_node

AGENT = "system:serviceaccount:home:agent"
FOUND = specs(AGENT)
OWN_SECRET = {
    "name": "is-not-its-own",
    "expression": "request.name != 'multicluster-scheduler-gateway-cert'",
}
EVERY = pytest.mark.parametrize("spec", FOUND.values(), ids=FOUND)


@EVERY
def test_a_policy_is_about_the_agent_and_nobody_else(spec: dict[str, Any]) -> None:
    condition, *others = spec["matchConditions"]
    # The agent has created the one of its own gateways.
    assert others == ([OWN_SECRET] if spec is FOUND[SECRETS] else [])
    assert condition["expression"] == f"request.userInfo.username == '{AGENT}'"
    assert str(spec).count(AGENT) == 1
    assert spec["failurePolicy"] == "Fail"


@EVERY
def test_every_verb_that_changes_something_of_its_kind_is_looked_at(spec: dict[str, Any]) -> None:
    (rule,) = spec["matchConstraints"]["resourceRules"]
    writes = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
    granted = {
        writes[grant.verb]
        for grant in ACCOUNT.grants[""]
        if grant.resource in rule["resources"] and grant.verb in writes
    }
    assert set(rule["operations"]) == granted
    resource = rule["resources"][0]
    subs = {grant.resource for grant in ACCOUNT.grants[""] if grant.resource.startswith(f"{resource}/")}
    assert subs == set(rule["resources"][1:])


@EVERY
def test_every_refusal_names_the_field_the_object_and_who_may(spec: dict[str, Any]) -> None:
    for validation in spec["validations"]:
        told = validation["messageExpression"]
        assert validation["reason"] == "Forbidden"
        assert re.match(r"'(metadata|spec|data|immutable)", told)
        assert re.search(r" of (node|namespace|secret|volume) ' \+ ", told)
        assert re.search(r": (leave|have) |change the rest yourself", told)
        # Messages about missing permissions have these words, and tests search for them.
        assert " cannot " not in told


@EVERY
def test_quotes_are_in_pairs_and_variables_are_there(spec: dict[str, Any]) -> None:
    known = set()
    for variable in spec["variables"]:
        assert set(re.findall(r"variables\.(\w+)", variable["expression"])) <= known
        known.add(variable["name"])
    texts = [each[field] for each in spec["validations"] for field in ("expression", "messageExpression")]
    for text in texts:
        assert set(re.findall(r"variables\.(\w+)", text)) <= known
        assert text.count("'") % 2 == 0
        assert text.count("(") == text.count(")")


def test_what_the_agent_makes_is_a_virtual_node_to_the_policy() -> None:
    labels = virtual_node("team", "us")["metadata"]["labels"]
    assert labels[names.PROVIDER_KEY] == names.PROVIDER_VALUE
    assert all(f"'{names.PROVIDER_KEY}'" in each["expression"] for each in FOUND[NODES]["validations"])
    # A target's own label may be used in place of this one.
    assert "virtual-kubelet'" not in str(FOUND[NODES])


def test_the_one_label_of_each_kind_is_free() -> None:
    for name, label in ((NAMESPACES, names.LABEL_ELECT_BY_DEFAULT), (SECRETS, names.LABEL_TARGET_SECRET)):
        (changed,) = (each for each in FOUND[name]["variables"] if each["name"] == "changedLabels")
        assert changed["expression"].count(f"k != '{label}'") == 2


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_word_is_found_in_base64_wherever_it_begins(before: bytes, after: bytes) -> None:
    looks = in_base64("clusters")
    assert any(each in base64.b64encode(before + b"clusters" + after).decode() for each in looks)


def test_what_does_not_hold_the_word_is_not_taken_for_it() -> None:
    assert len(in_base64("clusters")) == 3
    for text in (b"password", b"-----BEGIN CERTIFICATE-----", b"cluster", b"Clusters", bytes(range(256)) * 8):
        assert not any(each in base64.b64encode(text).decode() for each in in_base64("clusters"))
