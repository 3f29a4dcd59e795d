"""Policies (ValidatingAdmissionPolicy) that prevent a stolen token of the webhook from gaining the rights of others.

RBAC cannot restrict `patch` to a field, nor `create` on Secrets to a type.
"""

from typing import Any

from agent.api import cel, names
from agent.api.kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS

Raw = dict[str, Any]

CONFIGURATIONS = "multicluster-scheduler-webhook-configurations"
TOKENS = "multicluster-scheduler-token-secrets"

_TOKEN_TYPE = "kubernetes.io/service-account-token"
REGISTERS_ITSELF = f"{names.SHORT_PREFIX}registers-itself"
"""Annotation of configurations that a webhook with `--register` creates and keeps up to date. The chart sets none, its
role does not permit the webhook to create configurations, and the policy does not let it add the annotation."""
_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")


def specs(agent: str, webhook: str) -> dict[str, Raw]:
    """Return the policies by name, for the names of the agent's and the webhook's users."""
    return {CONFIGURATIONS: _configurations(webhook), TOKENS: _tokens(agent, webhook)}


def _configurations(webhook: str) -> Raw:
    """Return the policy that the webhook changes only caBundle: other rules would show it every object."""
    resources = [MUTATING_WEBHOOKS.plural, VALIDATING_WEBHOOKS.plural]
    before, after = "variables.before", "variables.after"
    entry = _equal_maps("was", "w", but="clientConfig")
    client = _equal_maps("was.clientConfig", "w.clientConfig", but="caBundle")
    field = "webhooks of ' + request.resource.resource + ' ' + request.name + '"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [cel.rule(MUTATING_WEBHOOKS.group, ["CREATE", "UPDATE", "DELETE"], resources)]
        },
        "matchConditions": [
            {"name": "is-the-webhook", "expression": cel.is_user(webhook)},
            {"name": "does-not-register-itself", "expression": f"!({_registers_itself()})"},
        ],
        "variables": [_entries("before", "oldObject"), _entries("after", "object")],
        "validations": [
            cel.refuse(
                "oldObject != null && object != null",
                "request.resource.resource + ' ' + request.name + ': the webhook of Flotilla creates and deletes no"
                " webhook configurations: have Helm or an administrator do it'",
            ),
            cel.refuse(
                f"oldObject == null || object == null || {before}.size() == {after}.size()"
                f" && {after}.all(w, {before}.exists(was, was.name == w.name && {entry} && {client}))",
                f"'{field}: the webhook of Flotilla changes clientConfig.caBundle only: have an administrator change"
                " the rest'",
            ),
            *(
                cel.refuse(
                    f"oldObject == null || object == null || ({_same(name)})",
                    f"'metadata.{name} of ' + request.resource.resource + ' ' + request.name + ': the webhook of"
                    " Flotilla changes clientConfig.caBundle only: have an administrator change it'",
                )
                for name in _METADATA
            ),
        ],
    }


def _tokens(agent: str, webhook: str) -> Raw:
    """Return the policy against Secrets with tokens, which never expire.

    A user who creates and reads one gets the rights of any account of its namespace.
    """
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [cel.rule(SECRETS.group, ["CREATE", "UPDATE"], [SECRETS.plural], version="v1")]
        },
        "matchConditions": [
            {
                "name": "is-the-agent-or-the-webhook",
                "expression": f"request.userInfo.username == '{webhook}'"
                # The agent removes its finalizer from any Secret that a Target has once named.
                f" || request.operation == 'CREATE' && request.userInfo.username == '{agent}'",
            }
        ],
        "validations": [
            cel.refuse(
                f"!has(object.type) || object.type != '{_TOKEN_TYPE}'",
                "'type of secret ' + request.namespace + '/' + object.metadata.name + ': agent and webhook of Flotilla"
                f" write no Secrets of type {_TOKEN_TYPE}, whose tokens never end: have an administrator do it'",
            )
        ],
    }


def _registers_itself() -> str:
    """Return CEL: the existing object has the annotation, or, without one, the new object."""
    there, new = (
        f"has({obj}.metadata.annotations) && '{REGISTERS_ITSELF}' in {obj}.metadata.annotations"
        for obj in ("oldObject", "object")
    )
    return f"oldObject != null ? {there} : {new}"


def _entries(name: str, obj: str) -> Raw:
    """Return a CEL variable: the webhooks of a configuration, as maps."""
    return {"name": name, "expression": f"{obj} != null && has(dyn({obj}).webhooks) ? dyn({obj}).webhooks : []"}


def _equal_maps(one: str, other: str, *, but: str) -> str:
    """Return CEL: two maps are equal except for one key."""
    return (
        f"{one}.all(k, k == '{but}' || k in {other} && {other}[k] == {one}[k])"
        f" && {other}.all(k, k == '{but}' || k in {one})"
    )


def _same(field: str) -> str:
    before, after = f"oldObject.metadata.{field}", f"object.metadata.{field}"
    return f"has({before}) ? has({after}) && {before} == {after} : !has({after})"
