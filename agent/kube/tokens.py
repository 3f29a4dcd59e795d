"""Whose a bearer token is: TokenReviews that an API server is asked for."""

from typing import Any

import msgspec

from agent.api.kinds import TOKEN_REVIEWS
from agent.kube.client import Client, encode


class User(msgspec.Struct, frozen=True):
    """A user as TokenReviews and SubjectAccessReviews name one."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def told(self) -> dict[str, Any]:
        """Return the user in the form of a SubjectAccessReview."""
        extra = {key: list(values) for key, values in self.extra}
        return {"user": self.name, "groups": list(self.groups), "uid": self.uid, "extra": extra}


class _UserInfo(msgspec.Struct):
    username: str = ""
    groups: list[str] | None = None
    uid: str = ""
    extra: dict[str, list[str]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo | None = None


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def bearer(authorization: str) -> str:
    """Return the token of an Authorization header; empty if it has none."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.isascii() else ""


async def user_of(client: Client, token: str) -> User | None:
    """Return the user of a token; None if the token is invalid. Raises KubeError when it cannot be reviewed."""
    review = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.name, "spec": {"token": token}}
    answer = await client.session.request(
        "POST", TOKEN_REVIEWS.path(), body=encode(review), resource=TOKEN_REVIEWS.plural
    )
    status = msgspec.json.decode(answer, type=_Review).status
    if not status.authenticated or status.user is None or not status.user.username:
        return None
    found = status.user
    extra = tuple((key, tuple(values)) for key, values in sorted((found.extra or {}).items()))
    return User(found.username, tuple(found.groups or ()), found.uid, extra)
