"""Who asks: client certificates that the cluster's client CA has signed, and bearer tokens, as kubelet takes them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api.kinds import TOKEN_REVIEWS
from agent.kube.client import Client, encode
from agent.kube.heads import Headers
from agent.kubelet.memory import Memory

TOKEN_SECONDS = 60.0
"""How long a token that was reviewed counts."""


@dataclass(frozen=True)
class User:
    """As reviews name users."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


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


class Authenticator:
    """Tells who asks. A certificate counts before a token, as for kubelet."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: Memory[bytes, User | None] = Memory(TOKEN_SECONDS)

    async def user(self, certificate: Mapping[str, Any], headers: Headers) -> User | None:
        """The user, None for nobody we know. Raises KubeError when the token cannot be reviewed."""
        named = of_certificate(certificate)
        if named is not None:
            return named
        scheme, _, token = headers.get("Authorization").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return None
        # Tokens themselves are not kept.
        digest = hashlib.sha256(token.encode()).digest()
        return await self._known.get(digest, lambda: self._review(token))

    async def _review(self, token: str) -> User | None:
        body = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.name, "spec": {"token": token}}
        answer = await self._client.session.request(
            "POST", TOKEN_REVIEWS.path(), body=encode(body), resource=TOKEN_REVIEWS.plural
        )
        status = msgspec.json.decode(answer, type=_Review).status
        if not status.authenticated or status.user is None or not status.user.username:
            return None
        found = status.user
        extra = tuple((key, tuple(values)) for key, values in sorted((found.extra or {}).items()))
        return User(found.username, tuple(found.groups or ()), found.uid, extra)


def of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """Common name and organisations of a verified certificate (as `ssl` decodes it): user and groups."""
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in pairs if key == "commonName"), "")
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(name, (*groups, "system:authenticated")) if name else None
