"""Pods that follow a Placement, between real clusters; the test writes the decisions."""

import contextlib
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    PODS,
    TARGETS,
)
from agent.api.names.ocm import (
    LABEL_CLUSTER_SET,
    LABEL_GROUP_INDEX,
    LABEL_GROUP_NAME,
    LABEL_PLACEMENT,
    PLACEMENT,
    PLACEMENT_GROUP,
    decision_name,
)
from agent.kube.client import Client
from agent.kube.errors import Conflict
from agent.scheduler.failed_targets import failed_targets_of
from tests.controllers.target_links import target as of_itself
from tests.e2e.manifests import only_on
from tests.ocm import Hub, object_of
from tests.scheduler.reserving import Open, Stage
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

KEY = names.SHORT_PREFIX + PLACEMENT
WEB = {KEY: "web"}
CONSUME: dict[str, Any] = {"placement": "consume", "placement_grace": 0.5}
"""Recently connected targets count like others; another test covers their grace period."""
RANKED: dict[str, Any] = {**CONSUME, "scheduling": "ranked"}


async def place(client: Client, namespace: str, **spec: Any) -> None:
    """Create a Placement named web."""
    await client.create(PLACEMENTS, object_of(PLACEMENTS, "web", namespace, spec=spec))


async def decide(
    client: Client, namespace: str, *clusters: str, number: int = 1, group: str = "", **scores: int
) -> None:
    """Decide for these clusters, optionally with scores."""
    name = decision_name("web", number)
    labels = {LABEL_PLACEMENT: "web", LABEL_GROUP_INDEX: str(number - 1), LABEL_GROUP_NAME: group}
    manifest = object_of(PLACEMENT_DECISIONS, name, namespace, metadata={"labels": labels})
    with contextlib.suppress(Conflict):
        await client.create(PLACEMENT_DECISIONS, manifest)
    found: list[dict[str, Any]] = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
    found += [{"clusterName": cluster, "reason": "", "score": score} for cluster, score in scores.items()]
    await client.patch(PLACEMENT_DECISIONS, name, {"status": {"decisions": found}}, namespace, sub="status")


async def known(stage: Stage) -> None:
    """Wait until the scheduler has cached the decision, since it may observe the next pod first."""
    key = (stage.namespace, decision_name("web", 1))
    made = await stage.client.get(PLACEMENT_DECISIONS, key[1], stage.namespace)

    def is_known() -> bool:
        store = stage.deps.placement.watch(PLACEMENT_DECISIONS).store
        found = store.get(key) if store is not None else None
        return found is not None and found.version == made["metadata"]["resourceVersion"]

    await until(is_known, what="the scheduler knows the decision")


async def stand(stage: Stage) -> None:
    """Create ManagedClusters that represent the targets, by their names."""
    for name in stage.targets:
        await stage.client.create(TARGETS, of_itself(name, stage.namespace))
        told = {"status": {"managedCluster": name}}
        await stage.client.patch(TARGETS, name, told, stage.namespace, sub="status")


async def runs(stage: Stage, name: str) -> str:
    """Return the target of a pod, once it runs."""

    async def probe() -> str:
        pod = await stage.client.get(PODS, name, stage.namespace)
        nodes = {target.node_name: title for title, target in stage.targets.items()}
        return nodes[pod["spec"]["nodeName"]] if pod["status"].get("phase") == "Running" else ""

    return await until(probe, 60.0) or ""


UNSCHEDULABLE = only_on("no-such-node")


async def test_without_placements_a_pod_that_names_one_waits_and_no_other_pod_notices(opened: Open) -> None:
    async with opened(scheduling="ranked") as stage:
        await stand(stage)
        await stage.pods("follows", annotations=WEB)
        await stage.pods("free")
        assert "not in Placement web: no Placements are used here" in await stage.waits("follows", "Placement")
        assert await runs(stage, "free") in stage.targets


@pytest.mark.usefixtures("placement_kinds")
async def test_a_pod_waits_for_its_placement_and_goes_where_that_decides(opened: Open) -> None:
    async with opened(**RANKED) as stage:
        await stand(stage)
        await stage.pods("web", annotations=WEB)
        assert "there is no such Placement in namespace" in await stage.waits("web", "no such")
        await place(stage.client, stage.namespace)
        assert "it has no decisions yet" in await stage.waits("web", "no decisions")
        await decide(stage.client, stage.namespace)
        assert "it has decided for no cluster" in await stage.waits("web", "no cluster")
        await decide(stage.client, stage.namespace, "elsewhere")
        told = await stage.waits("web", "not among")
        assert told == (
            "0/2 targets are available: eu: not in Placement web: not among its decisions,"
            " us: not in Placement web: not among its decisions"
        )
        await decide(stage.client, stage.namespace, "us")
        assert await runs(stage, "web") == "us"
        await decide(stage.client, stage.namespace, us=10, eu=20)
        await known(stage)
        await stage.pods("better", annotations=WEB)
        assert await runs(stage, "better") == "eu"


@pytest.mark.usefixtures("placement_kinds")
async def test_what_a_placement_decides_anew_moves_what_is_not_bound_and_nothing_else(opened: Open) -> None:
    async with opened(**RANKED) as stage:
        await stand(stage)
        await place(stage.client, stage.namespace)
        await decide(stage.client, stage.namespace, "eu")
        await stage.pods("bound", annotations=WEB)
        assert await runs(stage, "bound") == "eu"
        await stage.pods("pending", annotations=WEB, affinity=UNSCHEDULABLE)
        await stage.waits("pending", "nodes are available")
        await decide(stage.client, stage.namespace, "us")

        async def moved() -> bool:
            proxy = await stage.client.get(PODS, "pending", stage.namespace)
            attempt = failed_targets_of(proxy).get(stage.targets["eu"].node_name)
            where = {title for title, chaperon in await stage.chaperons() if "pending" in chaperon["metadata"]["name"]}
            return attempt is not None and attempt.reason == "no longer in Placement web" and where == {"us"}

        await until(moved, 60.0)
        await stage.pods("later", annotations=WEB)
        assert await runs(stage, "later") == "us"
        assert await runs(stage, "bound") == "eu"
        assert {title for title, each in await stage.chaperons() if "bound" in each["metadata"]["name"]} == {"eu"}


@pytest.mark.usefixtures("placement_kinds")
async def test_candidates_outside_of_a_decision_go_and_the_pod_takes_one_within(opened: Open) -> None:
    async with opened(**CONSUME) as stage:
        await stand(stage)
        await place(stage.client, stage.namespace)
        await decide(stage.client, stage.namespace, "eu", "us")
        await stage.pods("web", annotations=WEB, affinity=UNSCHEDULABLE)
        await stage.candidates(2)
        await decide(stage.client, stage.namespace, "us")
        ((where, _),) = await stage.candidates(1, "us")
        await until(lambda: _none_in(stage, "eu"))
        assert where == "us"
        await stage.pods("other", annotations=WEB)
        assert await runs(stage, "other") == "us"


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.usefixtures("placement_kinds")
async def test_a_reserve_claim_that_is_not_allowed_yet_is_withdrawn_when_the_decision_changes(opened: Open) -> None:
    async with opened(**CONSUME) as stage:
        await stand(stage)
        await place(stage.client, stage.namespace)
        await decide(stage.client, stage.namespace, "eu")
        stage.relays["eu"].freeze(lambda method, path: method == "PATCH" and "/podchaperons/" in path)
        await stage.pods("web", annotations=WEB)

        async def claimed() -> bool:
            pod = await stage.client.get(PODS, "web", stage.namespace)
            return pod["metadata"]["annotations"].get(names.ANNOTATION_CLAIM) == stage.targets["eu"].node_name

        await until(claimed)
        ((_, candidate),) = await stage.chaperons("eu")
        assert names.ANNOTATION_IS_ALLOWED not in candidate["metadata"]["annotations"]
        await decide(stage.client, stage.namespace, "us")
        assert await runs(stage, "web") == "us"
        await until(lambda: _none_in(stage, "eu"))


@pytest.mark.usefixtures("placement_kinds")
@pytest.mark.parametrize("policy", ["", "one-cluster"])
async def test_all_members_of_a_group_go_where_its_placement_decides(opened: Open, policy: str) -> None:
    async with opened(**CONSUME) as stage:
        await stand(stage)
        await place(stage.client, stage.namespace)
        for where in ("eu", "us"):
            await decide(stage.client, stage.namespace, where)
            await known(stage)
            marks = {names.POD_GROUP: f"to-{where}", names.POD_GROUP_SIZE: "2", names.POD_GROUP_POLICY: policy}
            members = [f"to-{where}-{number}" for number in range(2)]
            annotations = WEB | {names.SHORT_PREFIX + key: value for key, value in marks.items() if value}
            await stage.pods(*members, annotations=annotations)
            assert [await runs(stage, each) for each in members] == [where, where]


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.usefixtures("placement_kinds")
@pytest.mark.parametrize("grace", [600.0, 2.0], ids=["it decides in time", "it does not"])
async def test_a_pod_keeps_a_target_that_comes_back_until_its_placement_may_have_decided_again(
    opened: Open, grace: float
) -> None:
    async with opened(**RANKED | {"placement_grace": grace}) as stage:
        await stand(stage)
        await place(stage.client, stage.namespace)
        await decide(stage.client, stage.namespace, "eu")
        await stage.pods("web", annotations=WEB, affinity=UNSCHEDULABLE)
        await stage.waits("web", "nodes are available")
        ((_, before),) = await stage.chaperons()
        stage.relays["eu"].cut()
        await stage.waits("web", "the pod is claimed by this target")
        await decide(stage.client, stage.namespace, "us")
        stage.relays["eu"].mend()
        if grace < 600:
            await until(lambda: stage.chaperons("us"), 60.0)
            await until(lambda: _none_in(stage, "eu"), 60.0)
            return
        await stage.waits("web", "nodes are available")
        await decide(stage.client, stage.namespace, "eu")
        ((_, kept),) = await stage.chaperons()
        assert kept["metadata"]["uid"] == before["metadata"]["uid"]
        assert not failed_targets_of(await stage.client.get(PODS, "web", stage.namespace))


async def _none_in(stage: Stage, target: str) -> bool:
    return not await stage.chaperons(target)


@pytest.mark.usefixtures("placement_kinds")
async def test_a_namespace_names_the_placement_of_its_pods_and_a_pod_may_say_otherwise(opened: Open) -> None:
    async with opened(**RANKED) as stage:
        await stand(stage)
        await place(stage.client, stage.namespace)
        await decide(stage.client, stage.namespace, "eu")
        await decide(stage.client, stage.namespace, "us", number=2, group="canary")
        await stage.pods("canary", annotations={**WEB, names.SHORT_PREFIX + PLACEMENT_GROUP: "canary"})
        assert await runs(stage, "canary") == "us"
        await stage.namespace_says({names.PREFIX + PLACEMENT: "none"})
        await stage.pods("waits")
        await stage.pods("free", annotations={KEY: ""})
        await stage.waits("waits", "not in Placement none: there is no such Placement")
        assert await runs(stage, "free") in stage.targets
        await stage.namespace_says({names.PREFIX + PLACEMENT: "web"})
        assert await runs(stage, "waits") in stage.targets


@pytest.mark.usefixtures("placement_kinds")
async def test_where_placements_are_evaluated_here_a_pod_is_told_why_each_cluster_is_not_decided(opened: Open) -> None:
    async with opened(**RANKED | {"placement": "serve"}) as stage:
        await stand(stage)
        client, bound = stage.client, f"set-{stage.namespace}"
        hub = Hub(client, stage.namespace)
        taint = {"key": "maintenance", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}
        tainted, labels = {"hubAcceptsClient": True, "taints": [taint]}, {LABEL_CLUSTER_SET: bound}
        try:
            await hub.make(MANAGED_CLUSTERS, "eu", metadata={"labels": labels}, spec=tainted)
            await hub.make(MANAGED_CLUSTERS, "us", spec={"hubAcceptsClient": True})
            await hub.make(MANAGED_CLUSTER_SETS, bound, spec={})
            await hub.make(MANAGED_CLUSTER_SET_BINDINGS, bound, stage.namespace, spec={"clusterSet": bound})
            await place(client, stage.namespace)
            await decide(client, stage.namespace)
            await stage.pods("web", annotations=WEB)
            told = await stage.waits("web", "maintenance")
            assert "eu: not in Placement web: taint maintenance:NoSelect is not tolerated" in told
            assert "us: not in Placement web: in no set that is bound to namespace" in told
            spec = {"hubAcceptsClient": True, "taints": [{**taint, "key": "repair"}]}
            await client.patch(MANAGED_CLUSTERS, "eu", {"spec": spec})
            assert "us: not in Placement web: in no set" in await stage.waits("web", "taint repair:NoSelect")
        finally:
            await hub.close()
