"""Policies against delegates that run as service accounts with rights in this cluster (ValidatingAdmissionPolicy, CEL).

They apply to pods that the agent creates. The agent itself refuses such a pod first, with a better message. The
policies cover a mistake of the agent, or a webhook that changes the pod's account. Their parameters are the
Sources.

A policy with parameters refuses nothing if it cannot be evaluated. Without the CRD, or before it has read the
Sources, the API server fails before it evaluates match conditions. A strict policy would then refuse the pods
of all users.
"""

from typing import Any, NamedTuple

from agent.api import cel, names
from agent.api.kinds import CLUSTER_SOURCES, PODS, SOURCES, Kind

Raw = dict[str, Any]

OWN = "multicluster-scheduler-delegates-own-accounts"
SOURCE = "multicluster-scheduler-delegates-source-accounts"
CLUSTER_SOURCE = "multicluster-scheduler-delegates-cluster-source-accounts"

OWN_ACCOUNTS = tuple(
    f"flotilla-{each}" for each in ("agent", "webhook", "candidates", "gateway", "upgrade", "uninstall", "test")
)
"""Service accounts of a release of the chart with the name flotilla, including those of its hooks."""

_USER = "system:serviceaccount:"
_DEFAULT = "default"


class Policy(NamedTuple):
    """The specs of a policy and of its binding."""

    spec: Raw
    binding: Raw


def specs(agent: str, home: str, own: str) -> dict[str, Policy]:
    """Return the policies by name.

    :param agent: name of the agent's user
    :param home: namespace of the agent
    :param own: names of Flotilla's service accounts in that namespace, separated by commas
    """
    is_own = f"request.namespace == '{home}' && variables.account in '{own}'.split(',')"
    return {
        OWN: Policy({"failurePolicy": "Fail", **_about(agent, f"!({is_own})", "Flotilla itself")}, {}),
        SOURCE: _of(agent, SOURCES, "params.spec.serviceAccountName", "request.namespace"),
        CLUSTER_SOURCE: _of(
            agent, CLUSTER_SOURCES, "params.spec.serviceAccount.name", "params.spec.serviceAccount.namespace"
        ),
    }


def _of(agent: str, kind: Kind, name: str, namespace: str) -> Policy:
    """Return the policy that compares a pod with every Source of its namespace, or with every ClusterSource.

    A Source of another namespace is a parameter of no policy: only the agent refuses an account that its
    `userName` names.
    """
    field = f"params.spec.{'serviceAccountName' if kind.namespaced else 'serviceAccount'}"
    parts = [field, *(() if kind.namespaced else (name, namespace))]
    complete = " && ".join(f"has({each})" for each in ("params.spec", *parts))
    named = f"{complete} && {namespace} == request.namespace && {name} == variables.account"
    user = f"'{_USER}' + request.namespace + ':' + variables.account"
    is_user = f"has(params.spec) && has(params.spec.userName) && params.spec.userName == {user}"
    # Pods that name no account run as `default`. No new Source names it, and an old Source must not stop all of
    # these pods.
    unless = f"variables.account == '{_DEFAULT}' || !({named}) && !({is_user})"
    whose = f"the source of {kind.name} ' + params.metadata.name + '"
    source = {"paramKind": {"apiVersion": kind.api_version, "kind": kind.name}, "failurePolicy": "Ignore"}
    binding = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}
    return Policy({**source, **_about(agent, unless, whose)}, binding)


def _about(agent: str, unless: str, whose: str) -> Raw:
    has = "has(object.spec.serviceAccountName) && object.spec.serviceAccountName != ''"
    proxy = f"has(object.spec.schedulerName) && object.spec.schedulerName == '{names.SCHEDULER_PROXY}'"
    return {
        "matchConstraints": {"resourceRules": [cel.rule("", ["CREATE"], [PODS.plural], version="v1")]},
        "matchConditions": [
            {"name": "is-the-agent", "expression": cel.is_user(agent)},
            # A proxy pod runs in another cluster, where the target's agent decides.
            {"name": "is-no-proxy-pod", "expression": f"!({proxy})"},
        ],
        "variables": [{"name": "account", "expression": f"{has} ? object.spec.serviceAccountName : '{_DEFAULT}'"}],
        "validations": [
            {
                "expression": unless,
                "messageExpression": "'spec.serviceAccountName of pod ' + object.metadata.name + ': '"
                f" + variables.account + ' is the account by which {whose} acts in this cluster: have the pod name"
                " another service account'",
                "reason": "Forbidden",
            }
        ],
    }
