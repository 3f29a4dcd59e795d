"""Kubeconfigs for tests."""

import base64
from typing import Any

import yaml

SERVER = "https://192.0.2.1:6443"


def kubeconfig(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """Return a kubeconfig with one context; by default it has a token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "t0ken"} if user is None else user}],
    }
    return yaml.safe_dump(document | changes).encode()


def data(pem: bytes | str) -> str:
    """Encode text for a `-data` field of a kubeconfig."""
    return base64.b64encode(pem.encode() if isinstance(pem, str) else pem).decode()
