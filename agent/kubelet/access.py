"""Authorization of users: SubjectAccessReviews on subresources of the node, at the local API server."""

from agent.api.kinds import NODES
from agent.kube.client import Client
from agent.kube.reviews import is_allowed
from agent.kubelet.identity import User
from agent.kubelet.memory import Memory
from agent.kubelet.routes import Attributes

ALLOWED_SECONDS = 60.0
DENIED_SECONDS = 10.0
"""Seconds for which a verdict is cached; the kubelet uses 5 min and 30 s."""


class Authorizer:
    """Authorizes requests by SubjectAccessReviews, and caches their verdicts for a short time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: Memory[tuple[User, str, str, str], bool] = Memory(
            lambda allowed: ALLOWED_SECONDS if allowed else DENIED_SECONDS
        )

    async def allows(self, user: User, node: str, wanted: Attributes) -> bool:
        """Return whether one of the rights is granted. Raises KubeError when that cannot be found out."""
        for subresource in wanted.subresources:
            key = (user, wanted.verb, subresource, node)
            if await self._known.get(key, lambda sub=subresource: self._review(user, wanted.verb, sub, node)):  # type: ignore[misc]
                return True
        return False

    async def _review(self, user: User, verb: str, subresource: str, node: str) -> bool:
        who = {
            "user": user.name,
            "groups": list(user.groups),
            "uid": user.uid,
            "extra": {key: list(values) for key, values in user.extra},
        }
        attributes = {
            "verb": verb,
            "version": NODES.version,
            "resource": NODES.plural,
            "subresource": subresource,
            "name": node,
        }
        return await is_allowed(self._client, who, attributes)
