"""Reads a Target's reference to a kubeconfig, the kubeconfig, and the health of its connection."""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.clusters.target import Target
from agent.kube import config
from agent.kube import kubeconfig as documents
from agent.kube.both_scopes import EitherScope
from agent.kube.errors import InvalidConfig
from agent.kube.store import Key, Object
from agent.model import token
from agent.targets.target import decide

Raw = dict[str, Any]

_SECRET = "secret"


class Problem(Exception):
    """Reason why a Target cannot be connected: the reason of a condition, and a message with the remedy."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Reference:
    """Secret, key and context of a Target's kubeconfig; an empty context for the current one."""

    secret: Key
    key: str
    context: str

    def __str__(self) -> str:
        return "Secret " + "/".join(self.secret)


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


_KEYS_TOLD = 10
_secret_decoder = msgspec.json.Decoder(_Secret)


def reference(target: Raw) -> Reference | None:
    """Return the reference to a Target's kubeconfig; None for a self-target, or if the Target has none."""
    spec = target.get("spec") or {}
    secret = spec.get("kubeconfigSecret") or {}
    if spec.get("self") or not secret.get("name"):
        return None
    namespace = target["metadata"].get("namespace") or secret.get("namespace") or ""
    return Reference((namespace, secret["name"]), secret.get("key") or "config", secret.get("context") or "")


def check(target: Raw) -> None:
    """Raise Problem unless the Target names exactly one cluster; Admiralty's CRDs also allow none or two."""
    spec = target.get("spec") or {}
    if bool(spec.get("self")) == bool((spec.get("kubeconfigSecret") or {}).get("name")):
        raise Problem("InvalidSpec", "set either spec.self: true (this cluster) or spec.kubeconfigSecret, and not both")


def secret_of(target: Object) -> Key | None:
    """Return the key of the Secret that a Target refers to; None if it has none."""
    found = reference(target.decode())
    return found.secret if found else None


def index_secrets(targets: EitherScope) -> None:
    """Keep the index that `users_of` needs."""
    targets.index(_SECRET, lambda target: ("/".join(key),) if (key := secret_of(target)) else ())


def users_of(targets: EitherScope, secret: Key) -> list[Object]:
    """Return the Targets that refer to a Secret."""
    return targets.by_index(_SECRET, "/".join(secret))


def kubeconfig(place: Reference, secret: Object | None) -> bytes:
    """Return the kubeconfig. Raises Problem if the Secret or the key does not exist."""
    if secret is None:
        raise Problem("SecretNotFound", f"{place} does not exist: create it with a kubeconfig under key {place.key!r}")
    data = _secret_decoder.decode(secret.raw).data or {}
    if place.key not in data:
        known = ", ".join(sorted(data)[:_KEYS_TOLD]) or "none"
        raise Problem("KeyNotFound", f"{place} has no key {place.key!r} (it has: {known}): add it, or name another key")
    return msgspec.convert(data[place.key], bytes, strict=False)


def fingerprint(place: Reference | None, data: bytes) -> str:
    """Return a hash of everything that determines the connection."""
    if place is None:
        return "self"
    parts = (place.key.encode(), place.context.encode(), data)
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()


def identity(place: Reference, data: bytes) -> str:
    """Return a hash that changes if a new connection is needed, but not if a service account token is renewed."""
    try:
        document = documents.document_of(data)
        claims = token.claims(documents.token_of(document, place.context))
        if claims is not None:
            documents.set_token(document, f"{claims.namespace}/{claims.account}", place.context)
            data = msgspec.json.encode(document, order="deterministic")
    except InvalidConfig:
        # `connection` raises Problem for it.
        pass
    return fingerprint(place, data)


def connection(place: Reference, data: bytes, *, plugins: bool) -> config.Connection:
    """Parse the kubeconfig. Raises Problem if it is unusable."""
    try:
        return config.parse(data, place.context or None, plugins=plugins)
    except InvalidConfig as error:
        raise Problem("InvalidKubeconfig", f"{place}, key {place.key!r}: {error}") from error


def health_of(target: Target) -> decide.Health:
    """Return the conditions of a connected target."""
    return decide.health(
        target.record,
        target.agent,
        slow=target.slow,
        refusal=target.refusal_backoff.refusal,
        ignored=target.ignored,
        unreadable=target.unreadable,
        insecure="" if target.is_self else target.port.insecure,
    )
