"""Targets in the scheduler's cache, on a real API server: quotas, limits, weights, and external scores."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.kinds import CRDS, NAMESPACES, NODES, RESOURCE_QUOTAS, TARGETS, Kind
from agent.cli.explaining.facts import scored
from agent.clusters.deps import Deps
from agent.kube.client import Client
from agent.ranking.extrascore import ExtraScore
from agent.ranking.snapshot import Extra, TargetInfo, amounts
from agent.scheduler.cache.target_cache import TargetCache
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import connected
from tests.controllers.starting import running
from tests.controllers.target_links import target
from tests.waiting import unserved, until

pytestmark = pytest.mark.cluster

SCORES = Kind("scores.flotilla.test", "v1alpha1", "addonplacementscores", "AddOnPlacementScore")
SETTING = f"5:{SCORES.plural}.{SCORES.version}.{SCORES.group}:usage:cpu"


class Watched:
    """Target cache that counts how often waiting pods were woken."""

    def __init__(self, deps: Deps, namespace: str) -> None:
        self.woken = 0
        self._namespace = namespace
        self._places = TargetCache(deps, deps.local.informer(NODES), self._changed)

    def _changed(self) -> None:
        self.woken += 1

    @property
    def place(self) -> TargetInfo:
        """Return the only target."""
        (found,) = self._places.serving(self._namespace)
        return found


def quota(namespace: str, **hard: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team-a", "namespace": namespace},
        "spec": {"hard": hard, "scopes": ["NotTerminating"]},
    }


async def allow(client: Client, namespace: str, pods: str) -> None:
    """Change the quota and its status. Kubernetes' quota controller stalls for long when other tests add or
    remove kinds, so it cannot set the status."""
    await client.patch(RESOURCE_QUOTAS, "team-a", {"spec": {"hard": {"pods": pods}}}, namespace)
    status = {"hard": {"pods": pods}, "used": {"pods": "0"}}
    await client.patch(RESOURCE_QUOTAS, "team-a", {"status": status}, namespace, sub="status")


async def test_a_quota_of_the_target_is_seen_and_its_loosening_wakes_who_waits(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster) as deps, connected(deps, client, namespace, eu=None):
        watched = Watched(deps, namespace)
        # Kubernetes taints a new node for a moment.
        await until(lambda: len(watched.place.taints) == 1)
        await client.create(RESOURCE_QUOTAS, quota(namespace, pods="2"))
        await allow(client, namespace, "2")
        await until(lambda: watched.place.quotas.get(namespace))
        (found,) = watched.place.quotas[namespace]
        assert (found.name, found.hard, found.used) == ("team-a", amounts({"pods": "2"}), amounts({"pods": "0"}))
        assert [scope.name for scope in found.scopes] == ["NotTerminating"]
        before = watched.woken
        await allow(client, namespace, "3")
        await until(lambda: watched.place.quotas[namespace][0].hard == amounts({"pods": "3"}))
        assert watched.woken > before
        before = watched.woken
        await allow(client, namespace, "1")
        await until(lambda: watched.place.quotas[namespace][0].hard == amounts({"pods": "1"}))
        assert watched.woken == before
        await client.delete(RESOURCE_QUOTAS, "team-a", namespace)
        await until(lambda: not watched.place.quotas)
        assert watched.woken > before


async def test_limits_and_weight_of_the_target_are_live(cluster: Cluster, client: Client, namespace: str) -> None:
    target = {
        "apiVersion": TARGETS.api_version,
        "kind": TARGETS.name,
        "metadata": {"name": "eu", "namespace": namespace, "annotations": {"multicluster/weight": "30"}},
        "spec": {"self": True, "limits": {"cpu": "7500m", "pods": 3}},
    }
    async with running(cluster) as deps, connected(deps, client, namespace, eu=None):
        watched = Watched(deps, namespace)
        assert watched.place.limits == {}
        await client.create(TARGETS, target)
        await until(lambda: watched.place.weight == 30)
        assert watched.place.limits == amounts({"cpu": "7500m", "pods": "3"})
        before = watched.woken
        await client.patch(TARGETS, "eu", {"spec": {"limits": {"pods": None}}}, namespace)
        await until(lambda: watched.place.limits == amounts({"cpu": "7500m"}))
        assert watched.woken > before


@pytest.fixture
async def scores(client: Client) -> AsyncIterator[None]:
    """Kind with the structure of AddOnPlacementScore, in an API group of the test."""
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"status": status}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(SCORES)},
        "spec": {
            "group": SCORES.group,
            "scope": "Namespaced",
            "names": {"kind": SCORES.name, "plural": SCORES.plural, "singular": "addonplacementscore"},
            "versions": [
                {"name": SCORES.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    await client.create(CRDS, crd)
    yield
    await unserved(client, SCORES)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_score_of_others_counts_until_it_expires(
    cluster: Cluster, client: Client, namespace: str, scores: None
) -> None:
    # The namespace of the object has the name of the target.
    settings = {"extra_score": (SETTING,), "discovery_interval": 0.2}
    async with running(cluster, **settings) as deps, connected(deps, client, namespace, **{namespace: None}):
        watched = Watched(deps, namespace)
        await until(lambda: _served(client, namespace))
        until_then = datetime.now(UTC) + timedelta(seconds=8)
        score = {
            "apiVersion": SCORES.api_version,
            "kind": SCORES.name,
            "metadata": {"name": "usage", "namespace": namespace},
            "status": {
                "scores": [{"name": "mem", "value": 1}, {"name": "cpu", "value": 70}],
                "validUntil": until_then.isoformat(),
            },
        }
        await client.create(SCORES, score)
        await until(lambda: watched.place.extra)
        assert watched.place.extra == {"usage:cpu": Extra(70, until_then)}
        before = watched.woken
        await until(lambda: not watched.place.extra)
        assert watched.woken > before
        assert datetime.now(UTC) >= until_then
        wanted = [ExtraScore.parse(SETTING)]
        # `flotilla explain` reports the same.
        earlier = await scored(client, watched.place, wanted, until_then - timedelta(seconds=1))
        assert earlier.extra == {"usage:cpu": Extra(70, until_then)}
        assert (await scored(client, watched.place, wanted, until_then)).extra == {}


async def test_scores_are_those_in_the_namespace_of_the_managed_cluster_where_there_is_one(
    cluster: Cluster, client: Client, namespace: str, scores: None
) -> None:
    settings = {"extra_score": (SETTING,), "discovery_interval": 0.2}
    async with running(cluster, **settings) as deps, connected(deps, client, namespace, eu=None):
        watched = Watched(deps, namespace)
        await until(lambda: _served(client, namespace))
        head = {"apiVersion": SCORES.api_version, "kind": SCORES.name}
        status = {"scores": [{"name": "cpu", "value": 70}]}
        await client.create(SCORES, {**head, "metadata": {"name": "usage", "namespace": namespace}, "status": status})
        await client.create(TARGETS, target("eu", namespace, self=True))
        await client.patch(TARGETS, "eu", {"status": {"managedCluster": namespace}}, namespace, sub="status")
        await until(lambda: watched.place.extra)
        assert watched.place.extra == {"usage:cpu": Extra(70, None)}
        # `flotilla explain` reports the same.
        found = await scored(client, watched.place, [ExtraScore.parse(SETTING)], datetime.now(UTC))
        assert found.extra == watched.place.extra
        status["scores"][0]["value"] = 30
        await client.patch(SCORES, "usage", {"status": status}, namespace)
        await until(lambda: watched.place.extra == {"usage:cpu": Extra(30, None)})


async def _served(client: Client, namespace: str) -> bool:
    try:
        await client.list(SCORES, namespace)
    except Exception:
        return False
    return True


async def test_a_kind_of_scores_that_nobody_serves_is_no_matter(
    cluster: Cluster, client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(cluster, extra_score=("1:nothing.v1.example.com:a:b",), discovery_interval=0.1) as deps:
        async with connected(deps, client, namespace, eu=None):
            assert Watched(deps, namespace).place.extra == {}
            await until(lambda: any(text.startswith("nothing.example.com are not") for text in caplog.messages))
        assert all(informer.kind.plural != "nothing" for informer in deps.local.informers)
    assert await client.get(NAMESPACES, namespace)


async def test_a_target_that_cannot_be_connected_counts_and_says_why(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster) as deps:
        places = TargetCache(deps, deps.local.informer(NODES), lambda: None)
        await client.create(TARGETS, target("eu", namespace))
        await until(lambda: len(places.serving(namespace)) == 1)
        assert not places.knows_all(namespace), "nobody has tried to connect it"
        since = "2026-01-01T12:03:00Z"
        ready = {"type": "Ready", "status": "False", "reason": "SecretNotFound", "message": "Secret none is missing"}
        body = {"status": {"conditions": [ready | {"lastTransitionTime": since}]}}
        await client.patch(TARGETS, "eu", body, namespace, sub="status")
        await until(lambda: places.knows_all(namespace))
        (place,) = places.serving(namespace)
        assert (place.title, place.ready, place.state) == ("eu", False, "Secret none is missing (since 12:03)")
        await client.delete(TARGETS, "eu", namespace)
        await until(lambda: places.serving(namespace) == ())
        assert places.knows_all(namespace)
