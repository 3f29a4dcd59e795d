"""Policies about proxy pods report their refusals, match no other pods, and only a name is substituted in them."""

from typing import Any

from agent.api import agentpolicies, names
from agent.api.admission import CHANGES, CREATION, policies

AGENT, WEBHOOK = "system:serviceaccount:home:agent", "system:serviceaccount:home:webhook"


def every(kind: str) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"] for each in policies(AGENT, "home", WEBHOOK) if each["kind"] == kind}


def found(kind: str) -> dict[str, Any]:
    """Return the policies about proxy pods."""
    made = every(kind)
    return {name: made[name] for name in (CREATION, CHANGES)}


def test_every_policy_denies() -> None:
    bindings = every("ValidatingAdmissionPolicyBinding")
    assert bindings.keys() == every("ValidatingAdmissionPolicy").keys()
    assert agentpolicies.specs(AGENT).keys() < bindings.keys()
    for name, binding in bindings.items():
        assert binding.items() >= {"policyName": name, "validationActions": ["Deny"]}.items()


def test_a_policy_is_about_pods_of_the_proxy_scheduler_before_anything_else() -> None:
    for spec in found("ValidatingAdmissionPolicy").values():
        first = spec["matchConditions"][0]["expression"]
        assert first.endswith(f".spec.schedulerName == '{names.SCHEDULER_PROXY}'")
        (rule,) = spec["matchConstraints"]["resourceRules"]
        assert all(resource.partition("/")[0] == "pods" for resource in rule["resources"])


def test_every_refusal_names_the_field_and_what_to_do() -> None:
    for spec in found("ValidatingAdmissionPolicy").values():
        for validation in spec["validations"]:
            told = validation.get("message") or validation["messageExpression"]
            assert told.lstrip("'").startswith(("spec.schedulerName: ", "metadata.annotations["))
            assert "remove the field" in told or "create the pod without" in told or "leave it as it is" in told


def test_every_annotation_of_ours_on_proxy_pods_is_guarded() -> None:
    text = str(found("ValidatingAdmissionPolicy"))
    for key in names.OURS_ON_PROXY:
        assert f"'{key}'" in text
        assert "'" not in key
    assert text.count(AGENT) == 2
