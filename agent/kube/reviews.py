"""SubjectAccessReviews: check rights of a user or the agent at an API server. Reviews are not stored."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agent.api.kinds import SELF_ACCESS_REVIEWS, SELF_RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS, Kind
from agent.kube.client import Client, encode
from agent.kube.errors import Forbidden, NotFound, Unreadable


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _Rule(msgspec.Struct, rename="camel"):
    verbs: list[str] = []
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []

    def allows(self, kind: Kind, verb: str) -> bool:
        """Return whether the rule allows a verb for all objects of a kind."""
        told = ((verb, self.verbs), (kind.group, self.api_groups), (kind.plural, self.resources))
        return not self.resource_names and all(not {"*", one}.isdisjoint(those) for one, those in told)


class _Rules(msgspec.Struct, rename="camel"):
    resource_rules: list[_Rule] = []
    incomplete: bool = False
    evaluation_error: str = ""


class _RulesReview(msgspec.Struct):
    status: _Rules = msgspec.field(default_factory=_Rules)


def service_account(user: str) -> dict[str, Any]:
    """Return a service account for `is_allowed`, with the groups in which API servers place it.

    :param user: `system:serviceaccount:NAMESPACE:NAME`
    """
    _, _, namespace, _ = user.split(":")
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {"user": user, "groups": groups}


async def is_allowed(client: Client, user: Mapping[str, Any], attributes: Mapping[str, str]) -> bool:
    """Return whether a user (`user`, `groups`, `uid`, `extra`) is allowed the resource attributes. Raises KubeError."""
    return await _review(client, {**user, "resourceAttributes": attributes})


async def may_get(client: Client, user: Mapping[str, Any], path: str) -> bool:
    """Return whether a user may get a URL that is no resource, such as /metrics. Raises KubeError."""
    return await _review(client, {**user, "nonResourceAttributes": {"path": path, "verb": "get"}})


async def may_we(client: Client, attributes: Mapping[str, str]) -> bool:
    """Return whether the agent is allowed the resource attributes. Raises KubeError."""
    return await _review(client, {"resourceAttributes": attributes}, SELF_ACCESS_REVIEWS)


async def we_lack(client: Client, namespace: str, asked: Sequence[tuple[Kind, str]]) -> list[tuple[Kind, str]]:
    """Return the verbs for all objects of kinds in a namespace (empty: in all) that the agent lacks. Raises KubeError.

    Several rights in a namespace take one request, unless the API server's answer is incomplete, as with a webhook
    authorizer.
    """
    rules = None
    if namespace and len(asked) > 1 and all(kind.namespaced for kind, _ in asked):
        rules = await _our_rules(client, namespace)
    if rules is not None:
        return [(kind, verb) for kind, verb in asked if not _allow(rules, kind, verb)]
    lacking = []
    for kind, verb in asked:
        attributes = {"group": kind.group, "resource": kind.plural, "verb": verb, "namespace": namespace}
        if not await may_we(client, attributes):
            lacking.append((kind, verb))
    return lacking


def _allow(rules: Iterable[_Rule], kind: Kind, verb: str) -> bool:
    return any(rule.allows(kind, verb) for rule in rules)


async def _our_rules(client: Client, namespace: str) -> list[_Rule] | None:
    """Return the agent's rules in a namespace; None if they may be incomplete."""
    kind = SELF_RULES_REVIEWS
    review = {"apiVersion": kind.api_version, "kind": kind.name, "spec": {"namespace": namespace}}
    try:
        answer = await client.session.request("POST", kind.path(), body=encode(review), resource=kind.plural)
        status = msgspec.json.decode(answer, type=_RulesReview).status
    except (Forbidden, NotFound, Unreadable, msgspec.DecodeError):
        return None
    return None if status.incomplete or status.evaluation_error else status.resource_rules


async def _review(client: Client, spec: Mapping[str, Any], kind: Kind = SUBJECT_ACCESS_REVIEWS) -> bool:
    review = {"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
    answer = await client.session.request("POST", kind.path(), body=encode(review), resource=kind.plural)
    status = msgspec.json.decode(answer, type=_Review).status
    return status.allowed and not status.denied
