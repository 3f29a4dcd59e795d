"""The move benchmark: replaced pods, and a small run on a real cluster, whose figures are not checked."""

from typing import Any

import pytest

from agent.api.kinds import PODS
from agent.cli.progress import Silent
from agent.kube.client import Client, encode
from agent.kube.store import Object
from hack.lab.benchmarks.lab import Lab
from hack.lab.benchmarks.manifests import DEPLOYMENTS
from hack.lab.benchmarks.move import RESTART, Change, counts, renewed
from hack.lab.sandbox import Sandbox


def pod(uid: str, phase: str = "Running", *, owned: bool = True, ends: bool = False) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": owned}
    metadata: dict[str, Any] = {"name": uid, "namespace": "default", "uid": uid, "ownerReferences": [owner]}
    if ends:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Object(PODS, encode({"metadata": metadata, "status": {"phase": phase}}))


def test_a_replacement_counts_when_it_runs_and_is_its_owners() -> None:
    assert counts(pod("a"))
    assert not counts(pod("a", "Pending"))
    assert not counts(pod("a", owned=False))


@pytest.mark.cluster
async def test_a_plain_rollout_replaces_every_pod_and_leaves_nothing(
    sandbox: Sandbox, client: Client, namespace: str
) -> None:
    lab = Lab(sandbox, Silent())
    try:
        found = await renewed(lab, Change("restarted", namespace, False, RESTART.patch), 4)
    finally:
        await lab.close()
    assert 0 < found.start.p50 <= found.start.longest
    assert 0 < found.fewest <= 4 < found.most
    assert found.rate > 0
    assert await client.list(DEPLOYMENTS, namespace) == []
