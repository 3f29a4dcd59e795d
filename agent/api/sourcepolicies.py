"""Policies against requests of sources that RBAC cannot exclude: system namespaces, and tokens that never expire (CEL).

They apply to users that Sources and ClusterSources name; these are their parameters. A policy that cannot be
evaluated refuses nothing: kube-system must work without Flotilla's CRDs.
"""

from typing import Any, NamedTuple

from agent.api import cel, names
from agent.api.kinds import CHAPERONS, CLUSTER_SOURCES, LEASES, SOURCES, Kind
from agent.api.names import fencing
from agent.api.roles import EVERYTHING, SOURCE_RULES

Raw = dict[str, Any]

WRITES = "multicluster-scheduler-cluster-source-writes"
TOKENS = "multicluster-scheduler-source-tokens"
CLUSTER_TOKENS = "multicluster-scheduler-cluster-source-tokens"
FENCES = "multicluster-scheduler-source-leases"
CLUSTER_FENCES = "multicluster-scheduler-cluster-source-leases"

LONGEST_TOKEN_SECONDS = 90 * 86400
"""Longest lifetime in seconds of a token that a source may request."""

_SYSTEM = "kube-system"
_TOKEN_TYPE = "kubernetes.io/service-account-token"
_CHANGES = ("create", "update", "patch", "delete")
_CONNECTIONS = ("pods/exec", "pods/attach", "pods/portforward")
_ACCOUNT = "system:serviceaccount:"
_USER = "request.userInfo.username"
_IS_NO_COMPONENT = {
    "name": "is-no-component",
    "expression": f"!{_USER}.startsWith('system:') || {_USER}.startsWith('{_ACCOUNT}')",
}
"""Condition that exempts kubelets and control planes, which write most, from the comparison with each Source."""


class Policy(NamedTuple):
    """The specs of a policy and of its binding."""

    spec: Raw
    binding: Raw


def specs(home: str) -> dict[str, Policy]:
    """Return the policies by name.

    :param home: namespace of the agent
    """
    return {
        WRITES: _policy(CLUSTER_SOURCES, _writes(home)),
        TOKENS: _policy(SOURCES, _tokens()),
        CLUSTER_TOKENS: _policy(CLUSTER_SOURCES, _tokens()),
        FENCES: _policy(SOURCES, _leases()),
        CLUSTER_FENCES: _policy(CLUSTER_SOURCES, _leases()),
    }


def _policy(kind: Kind, spec: Raw) -> Policy:
    """Return a policy for every Source of the request's namespace, or every ClusterSource."""
    source = {"paramKind": {"apiVersion": kind.api_version, "kind": kind.name}, "failurePolicy": "Ignore"}
    users = [_user(kind), {"name": "named", "expression": "request.userInfo.username in variables.users"}]
    reference = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return Policy({**source, **spec, "variables": users}, {"paramRef": reference})


def _user(kind: Kind) -> Raw:
    """Return a CEL variable: names of the users of a Source."""
    if kind.namespaced:
        has, where, name = "serviceAccountName", "request.namespace", "params.spec.serviceAccountName"
    else:
        has, where, name = "serviceAccount", "params.spec.serviceAccount.namespace", "params.spec.serviceAccount.name"
    account = f"['{_ACCOUNT}' + {where} + ':' + {name}]"
    complete = f"has(params.spec.{has})"
    if not kind.namespaced:
        complete += " && has(params.spec.serviceAccount.namespace) && has(params.spec.serviceAccount.name)"
    user = "has(params.spec) && has(params.spec.userName) ? [params.spec.userName] : []"
    return {"name": "users", "expression": f"({user}) + (has(params.spec) && {complete} ? {account} : [])"}


def _writes(home: str) -> Raw:
    """Return the policy that no ClusterSource writes to kube-system and the agent's namespace, except to delete
    its copies.
    """
    places = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": sorted({_SYSTEM, home})}
    label = names.LABEL_PARENT_UID
    labels = "oldObject.metadata.labels"
    is_copy = f"request.operation == 'DELETE' && has({labels}) && '{label}' in {labels}"
    return {
        "matchConstraints": {
            "namespaceSelector": {"matchExpressions": [places]},
            "resourceRules": [*_written(), cel.rule("", ["CONNECT"], list(_CONNECTIONS))],
        },
        "matchConditions": [
            _IS_NO_COMPONENT,
            {"name": "is-no-copy-that-goes", "expression": f"!({is_copy})"},
        ],
        "validations": [
            {
                "expression": "!variables.named",
                "messageExpression": "'namespace ' + request.namespace + ': ClusterSource ' + params.metadata.name +"
                " ' changes nothing in the namespaces of Kubernetes and of Flotilla: use another namespace'",
                "reason": "Forbidden",
            }
        ],
    }


def _written() -> list[Raw]:
    """Return rules for everything that roles of sources may change, except Leases and existing PodChaperons."""
    groups: dict[str, list[str]] = {}
    for grant in (*EVERYTHING, *SOURCE_RULES):
        if grant.verb in _CHANGES and grant.sub in ("", "status") and grant.kind not in (CHAPERONS, LEASES):
            resources = groups.setdefault(grant.kind.group, [])
            resources += [] if grant.resource in resources else [grant.resource]
    rules = [cel.rule(group, ["CREATE", "UPDATE", "DELETE"], resources) for group, resources in groups.items()]
    return [cel.rule(CHAPERONS.group, ["CREATE"], [CHAPERONS.plural]), *rules]


def _leases() -> Raw:
    """Return the policy that a source writes only Leases for fences and heartbeats, not those of leader elections."""
    name, prefix = "object.metadata.name", fencing.LEASE_PREFIX
    asks = "has(params.spec.allow) && 'fence' in params.spec.allow"
    return {
        "matchConstraints": {"resourceRules": [cel.rule(LEASES.group, ["CREATE", "UPDATE"], [LEASES.plural])]},
        "matchConditions": [_IS_NO_COMPONENT],
        "validations": [
            {
                "expression": f"!variables.named || !({asks}) || {name}.startsWith('{prefix}')"
                f" || {name} == '{names.LEASE_SOURCES}'",
                "message": f"metadata.name: a source writes Leases whose names begin with {prefix} only: have others"
                " written by somebody else",
                "reason": "Forbidden",
            }
        ],
    }


def _tokens() -> Raw:
    """Return the policy that a source requests only limited token lifetimes, and creates no token Secrets.

    A token in a Secret never expires.
    """
    asked = "request.resource.resource == 'serviceaccounts'"
    days = LONGEST_TOKEN_SECONDS // 86400
    life = "dyn(object).spec.expirationSeconds"
    return {
        "matchConstraints": {
            "resourceRules": [
                cel.rule("", ["CREATE"], ["serviceaccounts/token"]),
                cel.rule("", ["CREATE"], ["secrets"]),
            ]
        },
        "matchConditions": [
            _IS_NO_COMPONENT,
            {
                "name": "is-a-token",
                "expression": f"{asked} || (has(dyn(object).type) && dyn(object).type == '{_TOKEN_TYPE}')",
            },
        ],
        "validations": [
            {
                "expression": f"!variables.named || !({asked}) || !has({life}) || {life} <= {LONGEST_TOKEN_SECONDS}",
                "message": f"spec.expirationSeconds: a source asks for tokens of {days} days at most"
                f" ({LONGEST_TOKEN_SECONDS} s), and renews them before they end",
                "reason": "Forbidden",
            },
            {
                "expression": f"!variables.named || {asked}",
                "message": f"type: a source makes no Secrets of type {_TOKEN_TYPE}, whose tokens never end: have pods"
                " mount tokens instead",
                "reason": "Forbidden",
            },
        ],
    }
