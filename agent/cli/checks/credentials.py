"""When the credentials of a kubeconfig end. Pure; no secret of it is kept."""

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

import msgspec
import yaml
from cryptography import x509

from agent.cli.checks.view import Credentials


class _Claims(msgspec.Struct):
    iat: float | None = None
    exp: float | None = None


def read(secret: str, kubeconfig: bytes, context: str = "") -> Credentials | None:
    """Of the user of a context, by default the current one; None where the kubeconfig has no such user."""
    user = _user(kubeconfig, context)
    if user is None:
        return None
    if user.get("client-certificate-data"):
        return _certificate(secret, str(user["client-certificate-data"]))
    if not user.get("token"):
        return None
    issued, ends = token_times(str(user["token"]))
    return Credentials(secret, issued, ends)


def token_times(token: str) -> tuple[datetime | None, datetime | None]:
    """When a token was issued and when it ends, as far as it says (JWT); its signature is not looked at."""
    parts = token.strip().split(".")
    if len(parts) != 3:
        return None, None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = msgspec.json.decode(payload, type=_Claims)
        return _moment(claims.iat), _moment(claims.exp)
    except (ValueError, binascii.Error, msgspec.DecodeError, OverflowError, OSError):
        return None, None


def _moment(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None


def _certificate(secret: str, encoded: str) -> Credentials | None:
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    except (ValueError, binascii.Error):
        return None
    return Credentials(secret, found.not_valid_before_utc, found.not_valid_after_utc, "client certificate")


def _user(kubeconfig: bytes, context: str) -> dict[str, Any] | None:
    try:
        document = yaml.safe_load(kubeconfig)
        name = context or document["current-context"]
        chosen = next(each["context"] for each in document["contexts"] if each["name"] == name)
        user = next(each["user"] for each in document["users"] if each["name"] == chosen["user"])
    except (yaml.YAMLError, LookupError, TypeError, AttributeError, StopIteration):
        return None
    return user if isinstance(user, dict) else None
