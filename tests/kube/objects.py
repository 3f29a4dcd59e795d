"""Objects as an API server sends them."""

import json
from typing import Any

from agent.api.kinds import CONFIGMAPS
from agent.kube.store import Object


def raw(name: str, version: int = 1, **metadata: Any) -> bytes:
    """Return a small object as JSON bytes."""
    identity = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return json.dumps({"metadata": identity | metadata}, separators=(",", ":")).encode()


def obj(name: str, version: int = 1, **metadata: Any) -> Object:
    """Return a small object."""
    return Object(CONFIGMAPS, raw(name, version, **metadata))
