"""Cached fields of pods that wait for a node."""

from typing import Any

import msgspec

from agent.api.kinds import PODS
from agent.kube.store import Object
from agent.targets.virtual_node.unplaced import reduced


def waiting(owner: str) -> dict[str, Any]:
    metadata = {
        "name": "web-x",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "7",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u0", "controller": True}],
    }
    container = {"name": "main", "env": [{"name": "A", "value": "b" * 4000}]}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def test_of_a_daemon_sets_pod_all_is_kept_and_of_others_what_tells_them_apart() -> None:
    own, other = (msgspec.json.encode(waiting(kind)) for kind in ("DaemonSet", "ReplicaSet"))
    assert reduced(own) == own
    assert len(reduced(other)) < 200
    kept = Object(PODS, reduced(other))
    assert (kept.key, kept.version, kept.controller) == (("default", "web-x"), "7", None)
