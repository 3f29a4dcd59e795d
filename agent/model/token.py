"""What a service account's token says of itself. It is only read: whether it is good is for its API server to say."""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

_SUBJECT = "system:serviceaccount:"


@dataclass(frozen=True)
class Claims:
    """Whose token it is, and from when to when."""

    namespace: str
    account: str
    issued: datetime
    expires: datetime
    audiences: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it lives."""
        return (self.expires - self.issued).total_seconds()

    def used(self, now: datetime) -> float:
        """The part of its life that is over: 0 new, 1 ended."""
        return (now - self.issued).total_seconds() / self.seconds if self.seconds > 0 else 1.0


class _Payload(msgspec.Struct):
    sub: str = ""
    iat: float = 0.0
    exp: float = 0.0
    aud: str | list[str] = []


_decoder = msgspec.json.Decoder(_Payload)


def claims(token: str) -> Claims | None:
    """The claims of a service account's token that ends; None for any other text, such as a token that never ends."""
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
