"""Objects as an API server would send them."""

import json
from typing import Any

from agent.api.kinds import CONFIGMAPS
from agent.kube.store import Object


def raw(name: str, version: int = 1, **metadata: Any) -> bytes:
    """The bytes of a small object."""
    identity = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return json.dumps({"metadata": identity | metadata}, separators=(",", ":")).encode()


def obj(name: str, version: int = 1, **metadata: Any) -> Object:
    """A small object."""
    return Object(CONFIGMAPS, raw(name, version, **metadata))
