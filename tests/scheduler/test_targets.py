"""Pods that name their targets, between real clusters."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import PODS
from agent.api.names.moves import ALLOWED_TARGETS, TARGETS
from tests.scheduler.reserving import Open, Stage
from tests.scheduler.test_placement import UNSCHEDULABLE, runs, stand
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

KEY = names.SHORT_PREFIX + TARGETS
BOUND = names.SHORT_PREFIX + ALLOWED_TARGETS
RANKED: dict[str, Any] = {"scheduling": "ranked"}


async def say(stage: Stage, **values: str | None) -> None:
    """Annotate the namespace with settings for targets."""
    keys = {names.SHORT_PREFIX + key.replace("_", "-"): value for key, value in values.items()}
    await stage.namespace_says(keys)


async def claimed(stage: Stage, name: str) -> str:
    """Return the target that a pod is claimed for."""
    pod = await stage.client.get(PODS, name, stage.namespace)
    node = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_CLAIM, "")
    return next((title for title, target in stage.targets.items() if target.node_name == node), "")


@pytest.mark.parametrize("mode", ["ranked", "reserve"])
async def test_pods_go_where_they_or_their_namespace_say(opened: Open, mode: str) -> None:
    async with opened(scheduling=mode) as stage:
        await stand(stage)
        await say(stage, targets="us")
        await stage.pods("follows")
        await stage.pods("differs", annotations={KEY: "eu > us"})
        await stage.pods("bounded", annotations={BOUND: "eu"})
        assert await runs(stage, "follows") == "us"
        assert await runs(stage, "differs") == "eu"
        told = await stage.waits("bounded", "targets are available")
        assert told == (
            "0/2 targets are available: eu: not in multicluster/targets of namespace"
            f" {stage.namespace} (us), us: not in multicluster/allowed-targets of the pod (eu)"
        )
        await say(stage, targets=None)
        assert await runs(stage, "bounded") == "eu"


async def test_what_cannot_be_read_sends_a_pod_nowhere_and_leaves_a_namespace_its_last_value(opened: Open) -> None:
    async with opened(**RANKED) as stage:
        await stand(stage)
        await say(stage, targets="us")
        await stage.pods("before")
        assert await runs(stage, "before") == "us"
        await say(stage, targets="us eu")
        await stage.pods("after")
        assert await runs(stage, "after") == "us"
        await stage.pods("odd", annotations={KEY: "nowhere"})
        assert "not in multicluster/targets of the pod (nowhere)" in await stage.waits("odd", "nowhere")
        # No webhook is registered.
        await stage.client.patch(PODS, "odd", {"metadata": {"annotations": {KEY: "us,,eu"}}}, stage.namespace)
        told = await stage.waits("odd", "mis")
        assert "the pod: metadata.annotations[multicluster/targets]: a name is missing" in told
        await stage.client.patch(PODS, "odd", {"metadata": {"annotations": {KEY: "eu"}}}, stage.namespace)
        assert await runs(stage, "odd") == "eu"


async def test_a_pod_without_a_node_leaves_a_target_that_is_chosen_no_longer(opened: Open) -> None:
    async with opened(**RANKED) as stage:
        await stand(stage)
        await say(stage, targets="us")
        await stage.pods("stuck", affinity=UNSCHEDULABLE)
        assert await until(lambda: claimed(stage, "stuck")) == "us"
        await say(stage, targets="eu")

        async def has_left() -> bool:
            return [target for target, _ in await stage.chaperons()] == ["eu"]

        await until(has_left)


async def test_settings_say_it_for_all_namespaces(opened: Open) -> None:
    async with opened(**RANKED, targets="us", allowed_targets="!ap") as stage:
        await stand(stage)
        await stage.pods("follows")
        await stage.pods("differs", annotations={KEY: ""})
        assert await runs(stage, "follows") == "us"
        assert await runs(stage, "differs") in stage.targets


async def test_members_of_a_group_may_name_different_targets(opened: Open) -> None:
    async with opened() as stage:
        await stand(stage)
        group = {names.SHORT_PREFIX + names.POD_GROUP: "g", names.SHORT_PREFIX + names.POD_GROUP_SIZE: "2"}
        await stage.pods("first", annotations=group | {KEY: "us"})
        await stage.pods("second", annotations=group | {KEY: "eu"})
        assert await stage.run(2) == {"first": "us", "second": "eu"}
