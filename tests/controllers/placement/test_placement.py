"""Placements on a real API server: changes around them, and the resulting decisions."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import (
    CLUSTER_ROLES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from agent.api.names.ocm import EVALUATE, SCHEDULING_DISABLED
from agent.api.ownroles import AGENT
from agent.api.placementroles import EVALUATE_PLACEMENTS, SERVE_PLACEMENTS
from agent.api.roles import rules
from agent.kube.errors import Invalid
from agent.placement.placements.cel import CelEvaluator
from agent.placement.placements.controller import PlacementController
from agent.ranking.placing.inputs import CelVerdicts
from tests.controllers.limited import limited
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.ocm import Hub, hub_of
from tests.waiting import until

Raw = dict[str, Any]

BY_SCORE = {
    "mode": "Exact",
    "configurations": [
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "usage", "scoreName": "cpu"}}, "weight": 1}
    ],
}
SATISFIED, MISCONFIGURED = "PlacementSatisfied", "PlacementMisconfigured"


def taint(effect: str = "NoSelect") -> Raw:
    return {"spec": {"taints": [{"key": "maintenance", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}]}}


def labelled(**labels: str) -> list[Raw]:
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


def cel(*expressions: str) -> list[Raw]:
    return [{"requiredClusterSelector": {"celSelector": {"celExpressions": list(expressions)}}}]


@pytest_asyncio.fixture
async def hub(pair: Pair) -> AsyncIterator[Hub]:
    async with hub_of(pair.here, pair.namespace) as hub:
        yield hub


@pytest_asyncio.fixture
async def at_work(pair: Pair, hub: Hub) -> AsyncIterator[Hub]:
    async with running(pair.clusters[0], PlacementController):
        yield hub


async def test_decisions_follow_clusters_their_labels_taints_and_bindings(at_work: Hub) -> None:
    hub = at_work
    await hub.cluster("eu", tier="gold")
    await hub.cluster("us", tier="silver")
    await hub.placement("web", predicates=labelled(tier="gold"))
    await hub.become("web", "eu")
    assert (await hub.condition("web", SATISFIED))["reason"] == "AllDecisionsScheduled"
    assert (await hub.condition("web", MISCONFIGURED))["reason"] == "Succeedconfigured"
    (decision,) = await hub.decisions("web")
    assert [(each["name"], each["controller"]) for each in decision["metadata"]["ownerReferences"]] == [("web", True)]
    (told,) = decision["status"]["decisions"]
    assert told["reason"].startswith("Balance 100")
    assert told["score"] == 200

    await hub.cluster("ap", tier="gold")
    await hub.become("web", "eu", "ap")
    await hub.change("us", {"metadata": {"labels": {"tier": "gold"}}})
    await hub.become("web", "eu", "ap", "us")
    await hub.change("eu", taint())
    await hub.become("web", "ap", "us")
    await hub.client.delete(MANAGED_CLUSTERS, hub.name("ap"))
    await hub.become("web", "us")
    await hub.client.delete(MANAGED_CLUSTER_SET_BINDINGS, hub.namespace, hub.namespace)
    await hub.become("web")
    assert (await hub.condition("web", SATISFIED))["reason"] == "NoManagedClusterSetBindings"
    assert [each["status"]["decisions"] for each in await hub.decisions("web")] == [[]]
    await hub.event("web", "DecisionCreate")
    await hub.event("web", "DecisionUpdate")
    assert (await hub.event("web", "ScoreUpdate"))["message"].startswith(f"{hub.namespace}-")


async def test_a_score_counts_until_it_expires(at_work: Hub) -> None:
    hub = at_work
    for short, value in (("eu", 80), ("us", 20)):
        await hub.cluster(short)
        await hub.score(short, 3600, cpu=value)
    await hub.placement("web", numberOfClusters=1, prioritizerPolicy=BY_SCORE)
    await hub.become("web", "eu")
    await hub.score("us", 3600, cpu=90)
    await hub.become("web", "us")
    await hub.score("us", 2, cpu=90)
    await hub.become("web", "eu")


@pytest.mark.parametrize(
    ("most", "strategy"),
    [
        pytest.param(2, {"groupStrategy": {"clustersPerDecisionGroup": 2}}, id="two in each group"),
        pytest.param(100, {}, id="a hundred in each object", marks=pytest.mark.seldom),
    ],
)
async def test_one_cluster_too_many_for_a_decision_has_another(at_work: Hub, most: int, strategy: Raw) -> None:
    hub = at_work
    names = [f"c{number:03}" for number in range(most + 1)]
    for name in names:
        await hub.cluster(name)
    await hub.placement("web", decisionStrategy=strategy)
    await hub.become("web", *names)
    found = {each["metadata"]["name"]: len(each["status"]["decisions"]) for each in await hub.decisions("web")}
    assert found == {"web-decision-1": most, "web-decision-2": 1}
    await hub.client.delete(MANAGED_CLUSTERS, hub.name("c001"))
    await hub.become("web", *(name for name in names if name != "c001"))
    await until(lambda: _is_gone(hub, "web-decision-2"))
    await hub.event("web", "DecisionDelete")


async def _is_gone(hub: Hub, name: str) -> bool:
    return name not in {each["metadata"]["name"] for each in await hub.decisions("web")}


async def test_two_placements_balance(at_work: Hub) -> None:
    hub = at_work
    await hub.cluster("eu")
    await hub.placement("one", numberOfClusters=1)
    await hub.placement("two", numberOfClusters=1)
    await hub.become("one", "eu")
    await hub.become("two", "eu")
    await hub.cluster("us")

    async def apart() -> bool:
        return await hub.decided("one") | await hub.decided("two") == {"eu", "us"}

    await until(apart)


async def test_a_typo_keeps_the_decisions(at_work: Hub) -> None:
    hub = at_work
    await hub.cluster("eu")
    await hub.placement("web")
    await hub.become("web", "eu")
    typo = {"configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Staedy"}, "weight": 1}]}
    await hub.respec("web", prioritizerPolicy=typo)
    told = await hub.condition("web", MISCONFIGURED, lambda found: found["status"] == "True")
    assert (told["reason"], told["message"]) == ("Misconfigured", ":incorrect builtin prioritizer: Staedy")
    assert (await hub.event("web", "DecisionKept"))["type"] == "Warning"
    await hub.become("web", "eu")
    assert (await hub.condition("web", SATISFIED))["status"] == "True"
    await hub.cluster("us")
    await hub.respec("web", prioritizerPolicy=None)
    await hub.become("web", "eu", "us")
    assert (await hub.condition("web", MISCONFIGURED))["status"] == "False"


POLICY, NOT_BOUND = "prioritizerPolicy", "None of ManagedClusterSets [nowhere] is bound to placement namespace"
BAD_INPUT: dict[str, tuple[Raw, str]] = {
    "set": ({"clusterSets": ["nowhere"]}, NOT_BOUND),
    "cel": (
        {"predicates": cel("managedCluster.wrong(")},
        "Predicate:compilation failed: ERROR: <input>:1:22: Syntax error",
    ),
    "mode": ({POLICY: {"mode": "Most"}}, ":incorrect prioritizer policy mode: Most"),
    "prioritizer": (
        {POLICY: {"configurations": [{"scoreCoordinate": {"builtIn": "Magic"}}]}},
        ":incorrect builtin prioritizer: Magic",
    ),
    "key": ({"tolerations": [{"value": "a"}]}, "TaintToleration:If the key is empty, operator must be Exists."),
    "value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "TaintToleration:If the operator is Exists, the value should be empty.",
    ),
    "number": ({"numberOfClusters": -1}, ":spec.numberOfClusters: must be 0 or more, not -1"),
}
"""Specs that an API server accepts, and the start of the condition that reports the mistake."""


async def test_bad_input_has_the_references_words_and_disturbs_nothing_else(at_work: Hub) -> None:
    hub = at_work
    await hub.cluster("eu")
    await hub.placement("web")
    await hub.become("web", "eu")
    before = [await hub.get("web"), *await hub.decisions("web")]
    with pytest.raises(Invalid, match="weight"):
        await hub.placement("weight", prioritizerPolicy={"configurations": [{"scoreCoordinate": {}, "weight": 11}]})
    for name, (spec, _) in BAD_INPUT.items():
        await hub.placement(name, **spec)
    for name, (_, words) in BAD_INPUT.items():
        unbound = words == NOT_BOUND
        told = await hub.condition(name, SATISFIED if unbound else MISCONFIGURED)
        assert (told["status"], told["reason"]) == (
            ("False", "NoIntersection") if unbound else ("True", "Misconfigured")
        )
        assert told["message"].startswith(words)
        await hub.become(name)
    after = [await hub.get("web"), *await hub.decisions("web")]
    versions = [[each["metadata"]["resourceVersion"] for each in found] for found in (before, after)]
    assert versions[0] == versions[1], "what is right is not written again"
    await hub.cluster("us")
    await hub.become("web", "eu", "us")


async def test_a_deleted_decision_comes_back_and_what_is_right_is_not_written(at_work: Hub) -> None:
    hub = at_work
    await hub.cluster("eu")
    await hub.placement("web")
    await hub.become("web", "eu")
    (before,) = await hub.decisions("web")
    await hub.client.delete(PLACEMENT_DECISIONS, "web-decision-1", hub.namespace)
    await hub.become("web", "eu")
    (after,) = await hub.decisions("web")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]

    status = (await hub.get("web"))["status"]
    await hub.client.patch_raw(PLACEMENTS, "web", {"metadata": {"labels": {"app": "shop"}}}, hub.namespace)
    await hub.change("eu", {"metadata": {"annotations": {"note": "seen"}}})
    await hub.placement("later")
    await hub.become("later", "eu")
    (kept,) = await hub.decisions("web")
    assert kept["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    assert (await hub.get("web"))["status"] == status


async def test_a_placement_of_a_very_long_name_is_decided(at_work: Hub) -> None:
    hub, name = at_work, "w" * 253
    await hub.cluster("eu")
    await hub.placement(name)
    await hub.become(name, "eu")


async def test_cel_follows_clusters_and_scores(at_work: Hub) -> None:
    hub = at_work
    for short, value in (("eu", 80), ("us", 20)):
        await hub.cluster(short, tier="gold")
        await hub.score(short, 3600, cpu=value)
    idle = 'managedCluster.scores("usage").exists(each, each.name == "cpu" && each.value > 50)'
    await hub.placement("web", predicates=cel('managedCluster.metadata.labels["tier"] == "gold"', idle))
    await hub.become("web", "eu")
    await hub.score("us", 3600, cpu=60)
    await hub.become("web", "eu", "us")
    await hub.change("eu", {"metadata": {"labels": {"tier": "silver"}}})
    await hub.become("web", "us")
    await hub.score("us", 2, cpu=60)
    await hub.become("web")
    await hub.respec("web", predicates=cel("managedCluster.wrong("))
    told = await hub.condition("web", MISCONFIGURED, lambda found: found["status"] == "True")
    assert "compilation failed" in told["message"]


async def test_on_a_hub_only_those_are_evaluated_that_ask_for_it(pair: Pair, hub: Hub) -> None:
    await hub.cluster("eu")
    await hub.placement("theirs")
    await hub.placement("half", {SCHEDULING_DISABLED: "true"})
    async with running(pair.clusters[0], PlacementController, placement="consume"):
        await hub.placement("ours", {SCHEDULING_DISABLED: "true", EVALUATE: "true"})
        await hub.become("ours", "eu")
    for name in ("theirs", "half"):
        assert await hub.decisions(name) == []
        assert "conditions" not in ((await hub.get(name)).get("status") or {})


async def test_without_the_right_to_evaluate_a_placement_says_which_value_gives_it(
    pair: Pair, hub: Hub, tmp_path: Path
) -> None:
    def rights(*without: str) -> list[dict[str, Any]]:
        return rules([grant for grant in AGENT.grants[""] if grant.feature not in without])

    await hub.cluster("eu")
    cluster, few = pair.clusters[0], rights(SERVE_PLACEMENTS, EVALUATE_PLACEMENTS)
    async with (
        limited(cluster, hub.client, hub.namespace, tmp_path, few) as weak,
        running(weak, PlacementController, placement="consume"),
    ):
        await hub.placement("web", {SCHEDULING_DISABLED: "true", EVALUATE: "true"})
        assert "agent.placement.evaluate=true" in (await hub.event("web", "EvaluationForbidden"))["message"]
        await hub.client.patch(CLUSTER_ROLES, hub.namespace, {"rules": rights(SERVE_PLACEMENTS)})
        await hub.become("web", "eu")


async def test_what_becomes_of_decisions_is_told_though_the_status_cannot_be_written(
    pair: Pair, hub: Hub, tmp_path: Path
) -> None:
    few = rules(
        [each for each in AGENT.grants[""] if (each.kind, each.verb, each.sub) != (PLACEMENTS, "patch", "status")]
    )
    for short in ("eu", "us"):
        await hub.cluster(short)
    async with (
        limited(pair.clusters[0], hub.client, hub.namespace, tmp_path, few) as weak,
        running(weak, PlacementController, placement="serve"),
    ):
        await hub.placement("web", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 1}})
        await hub.event("web", "DecisionCreate")
        await until(functools.partial(_decides, hub, "web", {"eu", "us"}))
        await hub.client.delete(MANAGED_CLUSTERS, hub.name("us"))
        await until(functools.partial(_decides, hub, "web", {"eu"}))
        await hub.event("web", "DecisionDelete")
        assert not (await hub.get("web")).get("status")


async def _decides(hub: Hub, name: str, wanted: set[str]) -> bool:
    return await hub.decided(name) == wanted


async def test_without_placements_nothing_is_watched(pair: Pair, hub: Hub) -> None:
    await hub.cluster("eu")
    async with contextlib.AsyncExitStack() as stack:
        deps = await stack.enter_async_context(running(pair.clusters[0], PlacementController, placement="off"))
        assert list(deps.local.informers) == []
        await hub.placement("web")
    await until(functools.partial(hub.get, "web"))
    assert await hub.decisions("web") == []


async def test_placements_without_cel_are_evaluated_while_those_with_cel_wait(
    pair: Pair, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def never(cel: CelEvaluator, expressions: Sequence[str], *args: object, **about: object) -> CelVerdicts:
        asked.extend(expressions)
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(CelEvaluator, "verdicts", never)
    await hub.cluster("eu", tier="gold")
    many = 3 * PlacementController.workers
    for number in range(many):
        await hub.placement(f"cel{number}", predicates=cel(f"{number} >= 0"))
    async with running(pair.clusters[0], PlacementController):
        await until(lambda: len(set(asked)) == many, what="all expressions are asked for")
        await hub.placement("web", predicates=labelled(tier="gold"))
        await hub.become("web", "eu")
        assert not await hub.decisions("cel0")
