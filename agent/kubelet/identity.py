"""Authentication: client certificates signed by the cluster's client CA, and bearer tokens, like the kubelet."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from agent.api.kinds import CONFIGMAPS
from agent.api.names import CLIENT_CA_CONFIGMAP, CLIENT_CA_NAMESPACE
from agent.clusters.cluster import Cluster
from agent.kube import tokens
from agent.kube.client import Client
from agent.kube.http_headers import Headers
from agent.kube.store import Object
from agent.kube.tokens import User as User
from agent.kubelet.memory import Memory

TOKEN_SECONDS = 60.0
"""Seconds for which a reviewed token is cached."""
_CLIENT_CA_KEY = "client-ca-file"


class Authenticator:
    """Identifies users. A certificate has precedence over a token, as in the kubelet."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: Memory[bytes, User | None] = Memory(TOKEN_SECONDS)

    async def user(self, certificate: Mapping[str, Any], headers: Headers) -> User | None:
        """Return the user; None for an unknown one. Raises KubeError when the token cannot be reviewed."""
        named = of_certificate(certificate)
        if named is not None:
            return named
        token = tokens.bearer(headers.get("Authorization"))
        if not token:
            return None
        # Tokens are not stored, only their digests.
        digest = hashlib.sha256(token.encode()).digest()
        return await self._known.get(digest, lambda: tokens.user_of(self._client, token))


def of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """Common name and organisations of a verified certificate (as `ssl` decodes it): user and groups."""
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in pairs if key == "commonName"), "")
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(name, (*groups, "system:authenticated")) if name else None


def watch_client_ca(cluster: Cluster, changed: Callable[[str], None]) -> Callable[[], None]:
    """Watch the CA of the client certificates that the local API server accepts; a kubelet reads it from a file.

    Calls `changed` with the PEM bundle, now and after every change; empty if there is none. Returns a function that
    stops the watch.
    """

    def told(old: Object | None, new: Object | None) -> None:
        changed(_bundle(new.decode()) if new is not None else "")

    return cluster.informer(CONFIGMAPS, CLIENT_CA_NAMESPACE, fields=f"metadata.name={CLIENT_CA_CONFIGMAP}").subscribe(
        told
    )


def _bundle(configmap: dict[str, Any]) -> str:
    return str((configmap.get("data") or {}).get(_CLIENT_CA_KEY) or "")
