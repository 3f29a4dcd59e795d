"""Claims of service account tokens, and metadata of their Secrets: read only, since the API server verifies tokens."""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from agent.api import names

_SUBJECT = "system:serviceaccount:"


@dataclass(frozen=True)
class Claims:
    """Service account and validity of a token."""

    namespace: str
    account: str
    issued: datetime
    expires: datetime
    audiences: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Lifetime in seconds."""
        return (self.expires - self.issued).total_seconds()

    def used(self, now: datetime) -> float:
        """Return the fraction of the token's lifetime that has passed; 1.0 or more if it has expired."""
        return (now - self.issued).total_seconds() / self.seconds if self.seconds > 0 else 1.0


class _Payload(msgspec.Struct):
    sub: str = ""
    iat: float = 0.0
    exp: float = 0.0
    aud: str | list[str] = []


_decoder = msgspec.json.Decoder(_Payload)


def claims(token: str) -> Claims | None:
    """Return the claims of a service account's token with an expiry; None for any other text, even a legacy token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = _decoder.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        issued, expires = (datetime.fromtimestamp(moment, UTC) for moment in (payload.iat, payload.exp))
    except (binascii.Error, ValueError, OverflowError, OSError, RecursionError):
        # msgspec's errors are ValueErrors.
        return None
    namespace, _, account = payload.sub.removeprefix(_SUBJECT).partition(":")
    if not payload.sub.startswith(_SUBJECT) or not account or not payload.iat or not payload.exp:
        return None
    audiences = (payload.aud,) if isinstance(payload.aud, str) else tuple(payload.aud)
    return Claims(namespace, account, issued, expires, audiences)


class _Annotations(msgspec.Struct, omit_defaults=True):
    parent: str = msgspec.field(default="", name=names.ANNOTATION_PARENT_NAME)
    expires: str = msgspec.field(default="", name=names.ANNOTATION_TOKEN_EXPIRES)


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None


class _Secret(msgspec.Struct):
    metadata: _Metadata


_secret_decoder = msgspec.json.Decoder(_Secret)
_encode = msgspec.json.Encoder().encode


def without_content(raw: bytes) -> bytes:
    """Return a Secret's metadata with owner and expiry of its token, without its content, for the cache."""
    return _encode(_secret_decoder.decode(raw))
