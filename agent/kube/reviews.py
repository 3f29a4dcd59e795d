"""SubjectAccessReviews: whether an API server would let a user, or us, do something. Asking stores nothing there."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api.kinds import SELF_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS, Kind
from agent.kube.client import Client, encode


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


async def is_allowed(client: Client, user: Mapping[str, Any], attributes: Mapping[str, str]) -> bool:
    """Whether a user (`user`, `groups`, `uid`, `extra`) may do what the resource attributes say. Raises KubeError."""
    return await _review(client, {**user, "resourceAttributes": attributes})


async def may_get(client: Client, user: Mapping[str, Any], path: str) -> bool:
    """Whether a user may get a URL that is no resource, such as /metrics. Raises KubeError."""
    return await _review(client, {**user, "nonResourceAttributes": {"path": path, "verb": "get"}})


async def may_we(client: Client, attributes: Mapping[str, str]) -> bool:
    """Whether we may do what the resource attributes say. Raises KubeError."""
    return await _review(client, {"resourceAttributes": attributes}, SELF_ACCESS_REVIEWS)


async def _review(client: Client, spec: Mapping[str, Any], kind: Kind = SUBJECT_ACCESS_REVIEWS) -> bool:
    review = {"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
    answer = await client.session.request("POST", kind.path(), body=encode(review), resource=kind.plural)
    status = msgspec.json.decode(answer, type=_Review).status
    return status.allowed and not status.denied
