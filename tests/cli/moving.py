"""Pods, owners and targets for tests of moves, without clusters."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from agent.api.kinds import PODS, TARGETS, Kind
from agent.api.names import virtual_node
from agent.cli.moving.lines import titles_of
from agent.cli.moving.world import Home, homes_of
from agent.kube.store import Object

Raw = dict[str, Any]

EU, US = (virtual_node("default", name) for name in ("eu", "us"))
NOW = datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
SINCE = "2026-01-01T12:00:00Z"
MOVED = msgspec.json.encode({"from": EU, "cause": "Targets", "since": SINCE}).decode()


def made(kind: Kind, name: str, **metadata: Any) -> Object:
    body = {"metadata": {"name": name, "namespace": "default", "uid": f"u-{name}", **metadata}}
    return Object(kind, msgspec.json.encode(body))


def target(name: str, status: Raw | None = None, **annotations: str) -> Object:
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return Object(TARGETS, msgspec.json.encode({"metadata": metadata, "status": status or {}}))


TITLES = titles_of([target("eu"), target("us")])


def pod(
    name: str,
    node: str = EU,
    reason: str = "",
    message: str = "",
    *,
    ready: bool = True,
    going: bool = False,
    controlled: bool = True,
    phase: str = "Running",
    **annotations: str,
) -> Object:
    conditions: list[Raw] = [{"type": "Ready", "status": str(ready)}]
    if reason:
        told = {"reason": reason, "message": message, "lastTransitionTime": SINCE}
        conditions.append({"type": "multicluster/Placed", "status": "False", **told})
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": controlled}
    metadata: Raw = {
        "name": name,
        "namespace": "default",
        "uid": f"u-{name}",
        "resourceVersion": "1",
        "ownerReferences": [reference],
        "annotations": {f"multicluster/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    if going:
        metadata["deletionTimestamp"] = SINCE
    status = {"phase": phase, "conditions": conditions}
    return Object(PODS, msgspec.json.encode({"metadata": metadata, "spec": {"nodeName": node}, "status": status}))


def homes_of_eu(*, reachable: bool) -> Home:
    """Return the target `eu`."""
    status = {"conditions": [{"type": kind, "status": str(reachable)} for kind in ("Reachable", "Ready")]}
    return homes_of([target("eu", status)])[EU]
