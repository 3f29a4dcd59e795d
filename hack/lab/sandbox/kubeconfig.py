"""Kubeconfig files with embedded certificates. Pure."""

import base64
import json

from agent.base.certificates import Pair


def render(cluster: str, server: str, authority: bytes, *, client: Pair | None = None, token: str = "") -> str:
    """Return a kubeconfig (JSON, which is YAML) with one context named after the cluster, by certificate or token."""
    user: dict[str, str] = {"token": token}
    if client is not None:
        user = {"client-certificate-data": _encode(client.certificate), "client-key-data": _encode(client.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _encode(authority)}}
        ],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
    return json.dumps(config, indent=1) + "\n"


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
