"""ManagedClusters on real API servers: created by us with our own CRDs, adopted if another controller creates
them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.api.kinds import (
    CLUSTER_SUMMARIES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    NODES,
    SECRETS,
    TARGETS,
    Kind,
)
from agent.api.names import SUMMARY_NAME, virtual_node
from agent.api.names.ocm import CLAIM_ID, LABEL_CLUSTER_NAME, LABEL_CLUSTER_SET, MANAGED_CLUSTER, OURS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.placement.managed_clusters import ClusterSetController, ManagedClusterController, TargetClusterController
from agent.targets.target import TargetController
from agent.targets.virtual_node import VirtualNodeController
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import condition, kubeconfig, rewrite, secret, target, tear_away
from tests.ocm import install, object_of
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
Holds = Callable[[Raw], object]

CONTROLLERS = (TargetController, VirtualNodeController, ManagedClusterController, TargetClusterController)
UNREACHABLE, CORDONED = "cluster.open-cluster-management.io/unreachable", "node.kubernetes.io/unschedulable"
CLOSED = "https://127.0.0.1:1"


@pytest.fixture(autouse=True)
async def _placements(pair: Pair) -> AsyncIterator[None]:
    """Install the CRDs in the source, and keep them; delete all other objects afterwards."""
    await install(pair.here)
    with contextlib.suppress(NotFound):
        # A patch would keep amounts of earlier tests.
        await pair.there.delete(CLUSTER_SUMMARIES, SUMMARY_NAME)
    await told(pair, cpu="4")
    yield
    await tear_away(pair.here, pair.namespace)
    for kind in (MANAGED_CLUSTERS, NODES, NAMESPACES):
        for obj in await pair.here.list(kind, labels=MANAGED_CLUSTER if kind == NODES else ""):
            name = obj["metadata"]["name"]
            if kind != NAMESPACES or name in (obj["metadata"].get("labels") or {}).get(LABEL_CLUSTER_NAME, ""):
                with contextlib.suppress(NotFound):
                    await pair.here.delete(kind, name)


async def told(pair: Pair, claims: str = "{}", **amounts: str) -> None:
    """Publish the target's ClusterSummary, as its agent does."""
    metadata = {"annotations": {"multicluster/claims": claims}}
    body = object_of(CLUSTER_SUMMARIES, SUMMARY_NAME, metadata=metadata, capacity=amounts, allocatable=amounts)
    try:
        await pair.there.patch(CLUSTER_SUMMARIES, SUMMARY_NAME, body)
    except NotFound:
        await pair.there.create(CLUSTER_SUMMARIES, body)


async def uid_of(pair: Pair) -> str:
    return str((await pair.there.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


def called(pair: Pair, name: str = "eu") -> str:
    """Return a name that no other test uses."""
    return f"{name}-{pair.namespace.removeprefix('test-')}"


async def join(pair: Pair, name: str, to: int = 1, **labels: str) -> str:
    """Create a Target that points to one of the two clusters."""
    name = called(pair, name)
    await pair.here.create(SECRETS, secret(name, pair.namespace, config=kubeconfig(pair.clusters[to])))
    manifest = target(name, pair.namespace)
    manifest["metadata"]["labels"] = labels
    await pair.here.create(TARGETS, manifest)
    return name


async def leave(pair: Pair, name: str) -> None:
    await pair.here.delete(TARGETS, name, pair.namespace)
    await gone(lambda: pair.here.get(TARGETS, name, pair.namespace))


async def cluster(pair: Pair, name: str, holds: Holds = bool) -> Raw:
    """Return the ManagedCluster, once it has this property."""

    async def probe() -> Raw | None:
        found = await pair.here.get(MANAGED_CLUSTERS, name)
        return found if holds(found) else None

    return await until(probe) or {}


async def says(pair: Pair, name: str, want: str | None) -> None:
    """Wait until a Target reports this about its ManagedCluster."""

    async def probe() -> bool:
        found = await pair.here.get(TARGETS, name, pair.namespace)
        return bool((found.get("status") or {}).get("managedCluster") == want)

    await until(probe, what=f"Target {name} says {want}")


def available(status: str) -> Holds:
    def probe(found: Raw) -> bool:
        one = find_condition((found.get("status") or {}).get("conditions"), "ManagedClusterConditionAvailable")
        return one is not None and one["status"] == status

    return probe


def tainted(*keys: str) -> Holds:
    return lambda found: {taint["key"] for taint in found["spec"].get("taints", ())} == set(keys)


def claims(found: Raw) -> dict[str, str]:
    return {each["name"]: each["value"] for each in (found.get("status") or {}).get("clusterClaims", ())}


async def by_hand(pair: Pair, name: str, claim: str = "", **labels: str) -> Raw:
    """Create a ManagedCluster of another controller."""
    manifest = object_of(MANAGED_CLUSTERS, name, metadata={"labels": labels}, spec={"hubAcceptsClient": True})
    made = await pair.here.create(MANAGED_CLUSTERS, manifest)
    if claim:
        status = {"conditions": [], "clusterClaims": [{"name": CLAIM_ID, "value": claim}]}
        made = await pair.here.patch(MANAGED_CLUSTERS, name, {"status": status}, sub="status")
    return made


async def test_a_cluster_of_a_target_is_kept_as_it_is(pair: Pair) -> None:
    name = await join(pair, "eu", env="prod")
    node = virtual_node(pair.namespace, name)
    async with running(pair.clusters[0], *CONTROLLERS):
        found = await cluster(pair, name, available("True"))
        assert found["metadata"]["labels"] == {"env": "prod", LABEL_CLUSTER_SET: "default", OURS: "true"}
        assert found["spec"]["hubAcceptsClient"] is True
        await cluster(pair, name, lambda found: found["status"].get("capacity") == {"cpu": "4"})
        assert claims(await cluster(pair, name, claims))[CLAIM_ID] == await uid_of(pair)
        await says(pair, name, name)
        await until(lambda: labelled(pair, node, name))
        await cluster(
            pair, name, lambda found: found["status"].get("version", {}).get("kubernetes", "").startswith("v")
        )
        made = await pair.here.get(NAMESPACES, name)
        assert made["metadata"]["labels"][LABEL_CLUSTER_NAME] == name

        await pair.here.patch(TARGETS, name, {"metadata": {"labels": {"env": "test"}}}, pair.namespace)
        await pair.here.patch(MANAGED_CLUSTERS, name, {"metadata": {"labels": {LABEL_CLUSTER_SET: "gold"}}})
        await told(pair, '{"gpu":"true"}', cpu="8")
        await cluster(pair, name, lambda found: claims(found).get("gpu") == "true")
        found = await cluster(pair, name, lambda found: found["metadata"]["labels"].get("env") == "test")
        assert found["metadata"]["labels"][LABEL_CLUSTER_SET] == "gold", "what users write stays"
        assert found["status"]["allocatable"] == {"cpu": "8"}

        await leave(pair, name)
        await gone(lambda: pair.here.get(MANAGED_CLUSTERS, name))
        assert await pair.here.get(NAMESPACES, name), "others may have put something there"


async def labelled(pair: Pair, node: str, name: str) -> bool:
    return bool((await pair.here.get(NODES, node))["metadata"]["labels"].get(MANAGED_CLUSTER) == name)


async def test_taints_follow_its_state_and_nothing_is_written_while_that_stays(pair: Pair) -> None:
    name = await join(pair, "eu")
    async with running(pair.clusters[0], *CONTROLLERS):
        await cluster(pair, name, available("True"))
        await until(lambda: labelled(pair, virtual_node(pair.namespace, name), name))
        own = {"key": "maintenance", "effect": "NoSelect"}
        await pair.here.patch(MANAGED_CLUSTERS, name, {"spec": {"taints": [own]}})
        found = await cluster(pair, name, lambda found: found["spec"]["taints"][0].get("timeAdded"))
        await pair.here.patch(NODES, virtual_node(pair.namespace, name), {"spec": {"unschedulable": True}})
        found = await cluster(pair, name, tainted("maintenance", CORDONED))
        assert {taint["effect"] for taint in found["spec"]["taints"]} == {"NoSelect", "NoSelectIfNew"}
        await pair.here.patch(NODES, virtual_node(pair.namespace, name), {"spec": {"unschedulable": None}})
        await cluster(pair, name, tainted("maintenance"))

        await rewrite(pair.here, pair.namespace, name, kubeconfig(pair.clusters[1], server=CLOSED))
        found = await cluster(pair, name, available("Unknown"))
        assert tainted("maintenance", UNREACHABLE)(found)
        assert claims(found), "what was told stays"
        await says(pair, name, name)
        await rewrite(pair.here, pair.namespace, name, kubeconfig(pair.clusters[1]))
        before = await cluster(pair, name, lambda found: available("True")(found) and tainted("maintenance")(found))
        # Events arrive in order: once this change is handled, the earlier ones were, without a write.
        await pair.here.patch(TARGETS, name, {"metadata": {"annotations": {"note": "x"}}}, pair.namespace)
        await told(pair, '{"gpu":"true"}', cpu="4")
        after = await cluster(pair, name, lambda found: claims(found).get("gpu") == "true")
        assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_one_cluster_has_one_however_many_targets_lead_there(pair: Pair) -> None:
    first, second = await join(pair, "a"), await join(pair, "b")
    async with running(pair.clusters[0], *CONTROLLERS):
        for each in (first, second):
            await condition(pair.here, pair.namespace, each, "Ready", "True")
        found = (await pair.here.get(TARGETS, first, pair.namespace))["status"].get("managedCluster")
        name = await until(lambda: the_only_one(pair))
        await says(pair, first, name)
        await says(pair, second, name)
        assert found in (None, name)
        await leave(pair, first if name == first else second)
        await says(pair, second if name == first else first, name)
        await cluster(pair, name, available("True"))
        await leave(pair, second if name == first else first)
        await gone(lambda: pair.here.get(MANAGED_CLUSTERS, name))


async def test_a_target_to_a_cluster_whose_managed_cluster_is_being_made_has_that_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, told_to, create = asyncio.Event(), asyncio.Event(), Client.create_raw

    async def held(self: Client, kind: Kind, *rest: Any, **named: Any) -> bytes:
        if kind == MANAGED_CLUSTERS:
            under_way.set()
            await told_to.wait()
        return await create(self, kind, *rest, **named)

    monkeypatch.setattr(Client, "create_raw", held)
    name = await join(pair, "b")
    async with running(pair.clusters[0], *CONTROLLERS):
        await until(under_way.is_set)
        other = await join(pair, "a")
        await condition(pair.here, pair.namespace, other, "Ready", "True")
        told_to.set()
        for each in (name, other):
            await says(pair, each, name)
        assert await the_only_one(pair) == name


async def the_only_one(pair: Pair) -> str | None:
    found = await pair.here.list(MANAGED_CLUSTERS)
    assert len(found) <= 1
    return str(found[0]["metadata"]["name"]) if found else None


@pytest.mark.full("Two clusters of one name; the first tier keeps one cluster of a name.")
async def test_two_clusters_of_one_name_have_two(pair: Pair) -> None:
    name = await join(pair, "eu")
    other = f"{pair.namespace}-other"
    await pair.here.create(NAMESPACES, object_of(NAMESPACES, other))
    try:
        async with running(pair.clusters[0], *CONTROLLERS):
            await says(pair, name, name)
            await pair.here.create(TARGETS, target(name, other, self=True) | {"metadata": {"name": name}}, other)
            await cluster(pair, "local-cluster", lambda found: found["metadata"]["labels"].get("local-cluster"))
            body = {"metadata": {"annotations": {MANAGED_CLUSTER: name}}}
            await pair.here.patch(TARGETS, name, body, other)
            await cluster(pair, name, lambda found: claims(found).get(CLAIM_ID) is not None)
            taken = await refused(pair, name, other)
            assert f"ManagedCluster {name} stands for another cluster" in taken["message"]
            await pair.here.patch(TARGETS, name, {"metadata": {"annotations": {MANAGED_CLUSTER: f"{name}-2"}}}, other)
            await cluster(pair, f"{name}-2", available("True"))
            await gone(lambda: pair.here.get(MANAGED_CLUSTERS, "local-cluster"))
            await says(pair, name, name)
    finally:
        await tear_away(pair.here, other)
        await pair.here.delete(NAMESPACES, other)


async def refused(pair: Pair, name: str, namespace: str) -> Raw:
    return await condition(pair.here, namespace, name, "ManagedCluster", "False", "NameTaken")


async def test_those_of_others_are_left_alone(pair: Pair) -> None:
    lone = await by_hand(pair, called(pair, "lone"))
    same = await by_hand(pair, called(pair, "eu"), claim=await uid_of(pair))
    foreign = object_of(NAMESPACES, called(pair, "me"), metadata={"labels": {"team": "x"}})
    await pair.here.create(NAMESPACES, foreign)
    try:
        async with running(pair.clusters[0], *CONTROLLERS):
            name = await join(pair, "us")
            await says(pair, name, called(pair, "eu"))
            self_name = called(pair, "me")
            await pair.here.create(TARGETS, annotated(self_name, pair.namespace))
            taken = await cluster(pair, self_name, lambda found: find(found, "NamespaceTaken") == "True")
            assert available("True")(await cluster(pair, self_name, available("True")))
            await pair.here.patch(NAMESPACES, self_name, {"metadata": {"labels": {LABEL_CLUSTER_NAME: self_name}}})
            await cluster(pair, self_name, lambda found: find(found, "NamespaceTaken") == "False")
            await leave(pair, name)
            assert taken["metadata"]["labels"][OURS] == "true"
            for each in (lone, same):
                now = await pair.here.get(MANAGED_CLUSTERS, each["metadata"]["name"])
                assert now["metadata"]["resourceVersion"] == each["metadata"]["resourceVersion"]
    finally:
        await pair.here.delete(NAMESPACES, called(pair, "me"))


async def test_what_no_target_leads_to_goes_unless_one_is_yet_to_connect(pair: Pair) -> None:
    kept, left = called(pair, "eu"), called(pair, "left")
    for name in (kept, left):
        await by_hand(pair, name, **{OURS: "true"})
    await pair.here.create(TARGETS, target(kept, pair.namespace))
    async with running(pair.clusters[0], *CONTROLLERS):
        await gone(lambda: pair.here.get(MANAGED_CLUSTERS, left))
        assert await pair.here.get(MANAGED_CLUSTERS, kept)
        await leave(pair, kept)
        await gone(lambda: pair.here.get(MANAGED_CLUSTERS, kept))


def annotated(name: str, namespace: str) -> Raw:
    manifest = target("own", namespace, self=True)
    manifest["metadata"]["annotations"] = {MANAGED_CLUSTER: name}
    return manifest


def find(found: Raw, kind: str) -> str:
    return str((find_condition((found.get("status") or {}).get("conditions"), kind) or {}).get("status"))


async def test_where_others_make_them_they_are_found_and_none_is_written(pair: Pair) -> None:
    name = await join(pair, "eu")
    async with running(pair.clusters[0], *CONTROLLERS, ClusterSetController, placement="consume"):
        missing = await condition(pair.here, pair.namespace, name, "ManagedCluster", "False", "NotFound")
        assert f"or is called {name}" in missing["message"]
        made = await by_hand(pair, called(pair, "x"), claim=await uid_of(pair))
        await says(pair, name, called(pair, "x"))
        await condition(pair.here, pair.namespace, name, "ManagedCluster", "True", "Found")
        await until(lambda: labelled(pair, virtual_node(pair.namespace, name), called(pair, "x")))
        now = await pair.here.list(MANAGED_CLUSTERS)
        assert [each["metadata"]["resourceVersion"] for each in now] == [made["metadata"]["resourceVersion"]]
    async with running(pair.clusters[0], *CONTROLLERS, placement="off"):
        await says(pair, name, None)


async def test_sets_say_what_is_in_them_and_bindings_whether_there_is_one(pair: Pair) -> None:
    for name in ("default", "global"):
        with contextlib.suppress(NotFound):
            await pair.here.delete(MANAGED_CLUSTER_SETS, name)
    await bind(pair, "gold")
    async with running(pair.clusters[0], ClusterSetController):
        await in_set(pair, "default", "True", "No ManagedCluster selected")
        await in_set(pair, "global", "True", "No ManagedCluster selected")
        await bound(pair, "gold", "False", "ClusterSetNotFound")
        await pair.here.create(MANAGED_CLUSTER_SETS, object_of(MANAGED_CLUSTER_SETS, "gold", spec={}))
        await bound(pair, "gold", "True", "ClusterSetBound")
        await by_hand(pair, called(pair, "a"), **{LABEL_CLUSTER_SET: "gold"})
        await in_set(pair, "gold", "False", "1 ManagedClusters selected")
        await in_set(pair, "global", "False", "1 ManagedClusters selected")
        body = {"metadata": {"labels": {LABEL_CLUSTER_SET: "default"}}}
        await pair.here.patch(MANAGED_CLUSTERS, called(pair, "a"), body)
        await in_set(pair, "gold", "True", "No ManagedCluster selected")
        await in_set(pair, "default", "False", "1 ManagedClusters selected")
        await pair.here.delete(MANAGED_CLUSTER_SETS, "gold")
        await bound(pair, "gold", "False", "ClusterSetNotFound")
        await pair.here.delete(MANAGED_CLUSTERS, called(pair, "a"))
        await in_set(pair, "default", "True", "No ManagedCluster selected")
        await pair.here.delete(MANAGED_CLUSTER_SETS, "default")
        await in_set(pair, "default", "True", "No ManagedCluster selected")


async def bind(pair: Pair, name: str) -> None:
    binding = object_of(MANAGED_CLUSTER_SET_BINDINGS, name, pair.namespace, spec={"clusterSet": name})
    await pair.here.create(MANAGED_CLUSTER_SET_BINDINGS, binding)


async def in_set(pair: Pair, name: str, empty: str, message: str) -> None:
    async def probe() -> bool:
        found = await pair.here.get(MANAGED_CLUSTER_SETS, name)
        one = find_condition((found.get("status") or {}).get("conditions"), "ClusterSetEmpty") or {}
        return (one.get("status"), one.get("message")) == (empty, message)

    await until(probe, what=f"set {name}: {message}")


async def bound(pair: Pair, name: str, status: str, reason: str) -> None:
    async def probe() -> bool:
        found = await pair.here.get(MANAGED_CLUSTER_SET_BINDINGS, name, pair.namespace)
        one = find_condition((found.get("status") or {}).get("conditions"), "Bound") or {}
        return (one.get("status"), one.get("reason")) == (status, reason)

    await until(probe, what=f"binding {name}: {reason}")
