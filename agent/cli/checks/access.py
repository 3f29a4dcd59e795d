"""Rights of accounts, as API servers report them: of the local agent, and of this cluster in its targets."""

import asyncio
import json

from agent.api.accounts import HOME
from agent.api.kinds import DEPLOYMENTS, SELF_RULES_REVIEWS, SERVICE_ACCOUNTS
from agent.api.ownroles import AGENT
from agent.api.roles import Grant
from agent.cli.checks.rights import missing
from agent.cli.checks.view import Rights
from agent.cli.options import Failed
from agent.kube.client import Client, encode
from agent.kube.reviews import is_allowed, service_account

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
        if not await is_allowed(client, service_account(user), attributes):
            return False
    return True


async def not_granted(client: Client, namespace: str) -> tuple[Grant, ...] | None:
    """Return rights that a target does not grant to the client's credentials; None if its answer is incomplete.

    Raises KubeError.

    :param namespace: namespace that the target serves, empty for all
    """
    kind = SELF_RULES_REVIEWS
    body = {"apiVersion": kind.api_version, "kind": kind.name, "spec": {"namespace": namespace or _EVERYWHERE}}
    answer = await client.session.request("POST", kind.path(), body=encode(body), resource=kind.plural)
    status = json.loads(answer)["status"]
    lacking = missing(status.get("resourceRules") or ())
    return None if lacking and status.get("incomplete") else lacking
