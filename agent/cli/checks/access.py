"""Rights of accounts, as API servers report them: of the local agent, and of this cluster in its targets."""

import asyncio
import json
from typing import Any

from agent.api.accounts import HOME
from agent.api.kinds import DEPLOYMENTS, SELF_RULES_REVIEWS, SERVICE_ACCOUNTS, SUBJECT_ACCESS_REVIEWS, Kind
from agent.api.ownroles import AGENT
from agent.api.roles import Grant
from agent.cli.checks.rights import missing
from agent.cli.checks.view import Rights
from agent.cli.options import Failed
from agent.kube.client import Client, encode

_AGENT_LABELS = "app.kubernetes.io/name=flotilla,app.kubernetes.io/component=agent"
_ACCOUNT = "flotilla-agent"
_EVERYWHERE = "default"
"""Namespace of a rules review for all namespaces: the API requires one."""


async def rights_of(client: Client, feature: str = "") -> Rights:
    """Return the rights that a cluster's agent needs and lacks, for one feature or for all (empty).

    Raises Failed if no agent is found, KubeError.
    """
    namespace, name = await _account(client)
    user = f"system:serviceaccount:{namespace}:{name}"
    asked = [
        (grant, namespace if scope == HOME else scope)
        for scope, grants in AGENT.grants.items()
        for grant in grants
        if feature in ("", grant.feature)
    ]
    allowed = await asyncio.gather(*(_may(client, user, grant, where) for grant, where in asked))
    lacking = tuple(grant for (grant, _), may in zip(asked, allowed, strict=True) if not may)
    return Rights(f"service account {namespace}/{name}", lacking)


async def _account(client: Client) -> tuple[str, str]:
    """Return namespace and name of the agent's service account: that of the chart, or one with its default name."""
    for deployment in await client.list(DEPLOYMENTS, labels=_AGENT_LABELS):
        spec = deployment["spec"]["template"]["spec"]
        return deployment["metadata"]["namespace"], spec.get("serviceAccountName") or "default"
    for account in await client.list(SERVICE_ACCOUNTS, fields=f"metadata.name={_ACCOUNT}"):
        return account["metadata"]["namespace"], _ACCOUNT
    raise Failed("no agent of the chart is found, nor a service account flotilla-agent")


async def _may(client: Client, user: str, grant: Grant, namespace: str) -> bool:
    """Return True if the user has the granted right for every object that the grant names."""
    for name in grant.names or ("",):
        attributes = {
            "namespace": namespace,
            "verb": grant.verb,
            "group": grant.kind.group,
            "version": grant.kind.version,
            "resource": grant.kind.plural,
            "subresource": grant.sub,
            "name": name,
        }
        spec = {"user": user, "groups": _groups(user), "resourceAttributes": attributes}
        body = {"apiVersion": SUBJECT_ACCESS_REVIEWS.api_version, "kind": SUBJECT_ACCESS_REVIEWS.name, "spec": spec}
        if not (await _post(client, SUBJECT_ACCESS_REVIEWS, body))["status"].get("allowed"):
            return False
    return True


def _groups(user: str) -> list[str]:
    """Return the groups in which API servers place a service account."""
    _, _, namespace, _ = user.split(":")
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


async def not_granted(client: Client, namespace: str) -> tuple[Grant, ...] | None:
    """Return rights that a target does not grant to the client's credentials; None if its answer is incomplete.

    Raises KubeError.

    :param namespace: namespace that the target serves, empty for all
    """
    body = {
        "apiVersion": SELF_RULES_REVIEWS.api_version,
        "kind": SELF_RULES_REVIEWS.name,
        "spec": {"namespace": namespace or _EVERYWHERE},
    }
    status = (await _post(client, SELF_RULES_REVIEWS, body))["status"]
    lacking = missing(status.get("resourceRules") or ())
    return None if lacking and status.get("incomplete") else lacking


async def _post(client: Client, kind: Kind, body: Any) -> Any:
    return json.loads(await client.session.request("POST", kind.path(), body=encode(body), resource=kind.plural))
