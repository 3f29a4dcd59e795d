"""SubjectAccessReviews: whether an API server would let a user do something."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api.kinds import SUBJECT_ACCESS_REVIEWS
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


async def _review(client: Client, spec: Mapping[str, Any]) -> bool:
    review = {"apiVersion": SUBJECT_ACCESS_REVIEWS.api_version, "kind": SUBJECT_ACCESS_REVIEWS.name, "spec": spec}
    answer = await client.session.request(
        "POST", SUBJECT_ACCESS_REVIEWS.path(), body=encode(review), resource=SUBJECT_ACCESS_REVIEWS.plural
    )
    status = msgspec.json.decode(answer, type=_Review).status
    return status.allowed and not status.denied
