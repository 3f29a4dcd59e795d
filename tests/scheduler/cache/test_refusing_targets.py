"""Real targets that answer every read and refuse pods: their pods move to another target, and return afterwards."""

import asyncio
import contextlib
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CHAPERONS, CONFIGMAPS, EVENTS, PODS, TARGETS
from agent.dependencies.follow.controller import FollowController
from agent.kube.client import Client
from agent.kube.config import load
from agent.targets.target.controller import TargetController
from hack.lab.sandbox import Cluster, Sandbox
from tests.controllers.proxies import enable
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, tear_away
from tests.e2e.faults.byhand import scheduler_by_hand
from tests.e2e.faults.refusals import dead_webhook
from tests.kube.relay import Relay
from tests.scheduler.reserving import Open, Stage
from tests.scheduler.test_slow_target import is_post
from tests.waiting import until

pytestmark = [
    pytest.mark.full(
        "Waits through the backoff of targets that refuse; the pure tests of the backoff are in tests/clusters."
    ),
    pytest.mark.cluster,
    pytest.mark.timeout(180),
]

RANKED: dict[str, Any] = {"scheduling": "ranked"}


def posts(stage: Stage, target: str) -> int:
    """Return the number of chaperons that a target was asked to create."""
    return sum(is_post(*request) for request in stage.relays[target].requests)


def shut(stage: Stage, target: str) -> bool:
    """Return whether the scheduler avoids a target."""
    return stage.targets[target].refusal_backoff.refusal is not None


async def pods(stage: Stage, prefix: str, count: int, **more: Any) -> list[str]:
    """Create this many pods."""
    made = [f"{prefix}-{number}" for number in range(count)]
    await asyncio.gather(*(stage.pod(name, **more) for name in made))
    return made


async def where(stage: Stage, made: list[str], seconds: float = 60.0) -> set[str]:
    """Return the targets of the pods, once all of them run."""

    async def probe() -> set[str]:
        found = {pod["metadata"]["name"]: pod for pod in await stage.proxies()}
        chosen = [found[name] for name in made]
        if any(pod["status"].get("phase") != "Running" for pod in chosen):
            return set()
        nodes = {target.node_name: name for name, target in stage.targets.items()}
        return {nodes[pod["spec"]["nodeName"]] for pod in chosen}

    return await until(probe, seconds, what=f"{len(made)} pods run")


async def told(stage: Stage, words: str) -> bool:
    """Return whether an Event of a waiting pod contains these words."""
    events = await stage.client.list(EVENTS, stage.namespace, fields="reason=FailedScheduling")
    return any(words in event["message"] for event in events)


async def test_pods_that_one_target_does_not_take_run_in_another_and_most_are_spared_the_attempt(opened: Open) -> None:
    async with opened(**RANKED) as at:
        async with dead_webhook(at.far["us"], CHAPERONS, at.namespace) as webhook:
            first = await pods(at, "first", 5)
            assert await where(at, first) == {"eu"}
            # As many as the detection needs; the first of a burst are sent at the same time.
            await pods(at, "second", 5)
            await until(lambda: shut(at, "us"))
            refusal = at.targets["us"].refusal_backoff.refusal
            assert refusal is not None
            assert refusal.reason == "ServerError"
            assert webhook in refusal.words
            asked = posts(at, "us")
            last = await pods(at, "last", 12)
            assert await where(at, last) == {"eu"}
            assert posts(at, "us") - asked <= 4
            events = await at.client.list(EVENTS, at.namespace, fields="reason=FailedScheduling")
            assert any("us: cannot create PodChaperon" in event["message"] for event in events)
        await until(lambda: tried_again(at), 60.0, what="us takes pods again")
        assert "us" in await where(at, await pods(at, "back", 5))
        assert not shut(at, "us")
        parents = [each["metadata"]["labels"][names.LABEL_PARENT_UID] for _, each in await at.chaperons()]
        assert len(parents) == len(set(parents))


async def tried_again(at: Stage) -> bool:
    """Return whether an avoided target receives pods again; a single trial pod finds out."""
    if shut(at, "us"):
        number = len(await at.proxies())
        await where(at, await pods(at, f"try-{number}", 1))
    return not shut(at, "us")


async def test_pods_that_no_target_takes_say_why_wait_without_haste_and_run_once_one_does(opened: Open) -> None:
    async with opened(**RANKED) as at, contextlib.AsyncExitStack() as us:
        await us.enter_async_context(dead_webhook(at.far["us"], CHAPERONS, at.namespace))
        async with dead_webhook(at.far["eu"], CHAPERONS, at.namespace):
            made = await pods(at, "web", 12)
            for name in made:
                said = await at.waits(name, "failed calling webhook")
                assert said.startswith("0/2 targets are available: ")
                assert "us: " in said
                assert "eu: " in said
            await until(lambda: shut(at, "us") and shut(at, "eu"))
            before = posts(at, "us") + posts(at, "eu")
            versions = {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in await at.proxies()}
            await asyncio.sleep(4)
            assert posts(at, "us") + posts(at, "eu") - before <= 8
            after = {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in await at.proxies()}
            assert sum(after[uid] != version for uid, version in versions.items()) <= 8
        assert await where(at, made, 90.0) == {"eu"}


async def test_the_only_target_that_refuses_one_pod_is_asked_again_soon(opened: Open) -> None:
    async with opened(**RANKED) as at:
        async with contextlib.AsyncExitStack() as stack:
            for target in ("us", "eu"):
                await stack.enter_async_context(dead_webhook(at.far[target], CHAPERONS, at.namespace))
            await at.pod("web")
            await at.waits("web", "failed calling webhook")
        assert await where(at, ["web"]) <= {"us", "eu"}


async def test_a_target_that_has_taken_the_chaperon_and_says_that_it_failed_keeps_the_pod(opened: Open) -> None:
    async with opened(**RANKED) as at:
        for relay in at.relays.values():
            relay.err_after = is_post
        made = await pods(at, "web", 6)
        await where(at, made)
        found = await at.settled(6)
        assert len(found) == 6


async def test_a_target_that_leaves_chaperons_unanswered_and_answers_reads_loses_the_pods(opened: Open) -> None:
    async with opened(**RANKED) as at:
        at.relays["us"].freeze(is_post)
        made = await pods(at, "web", 6)
        assert await where(at, made, 90.0) == {"eu"}
        assert not await at.chaperons("us")
        await until(lambda: told(at, "us: cannot create PodChaperon: no answer"), what="why us took none is told")


@pytest.mark.seldom
async def test_a_target_in_which_no_pods_can_be_created_loses_them_in_its_own_words(opened: Open) -> None:
    async with opened(**RANKED) as at:
        async with dead_webhook(at.far["us"], PODS, at.namespace) as webhook:
            made = await pods(at, "web", 8)
            assert await where(at, made) == {"eu"}
            tried = [
                pod["metadata"]["annotations"][names.ANNOTATION_ATTEMPTS]
                for pod in await at.proxies()
                if names.ANNOTATION_ATTEMPTS in pod["metadata"]["annotations"]
            ]
            assert tried
            assert all(webhook in attempt for attempt in tried)
            await until(lambda: shut(at, "us"))
            assert not await at.chaperons("us")
        await until(lambda: tried_again(at), 60.0, what="us takes pods again")


async def test_what_a_pod_needs_is_not_taken_either_and_it_runs_elsewhere(
    cluster: Cluster, client: Client, namespace: str, opened: Open
) -> None:
    async with opened(**RANKED, controllers=(FollowController,)) as at:
        await at.client.create(CONFIGMAPS, {"metadata": {"name": "settings"}, "data": {"a": "b"}}, at.namespace)
        volume = {"name": "settings", "configMap": {"name": "settings"}}
        async with dead_webhook(at.far["us"], CONFIGMAPS, at.namespace):
            made = await pods(at, "web", 4, volumes=[volume])
            assert await where(at, made) == {"eu"}
        events = await at.client.list(EVENTS, at.namespace, fields="reason=FailedScheduling")
        told = [event["message"] for event in events if event["message"].startswith("us: ")]
        assert all("us: cannot create what the pod needs there" in message for message in told)


async def test_a_pod_whose_scheduler_is_in_one_target_only_gets_there(opened: Open) -> None:
    async with opened(**RANKED, take_up=3.0) as at, scheduler_by_hand(at.far["eu"], at.namespace, "odd"):
        made = await pods(at, "web", 4, schedulerName="odd")
        usual = await pods(at, "usual", 2)
        assert await where(at, made) == {"eu"}
        await where(at, usual)
        events = await at.client.list(EVENTS, at.namespace, fields="reason=FailedScheduling")
        assert any("us: no scheduler odd has looked at" in event["message"] for event in events)


async def test_a_pod_that_no_scheduler_anywhere_is_for_says_so(opened: Open) -> None:
    async with opened(**RANKED, take_up=1.0, dwell=60.0) as at:
        await at.pod("web", schedulerName="nobody")
        said = await at.waits("web", "no scheduler nobody has looked at")
        assert "install it in the target" in said
        assert len(await at.chaperons()) == 1


async def test_candidates_that_one_target_does_not_take_cost_nothing_where_another_does(opened: Open) -> None:
    async with opened() as at:
        async with dead_webhook(at.far["us"], CHAPERONS, at.namespace):
            made = await pods(at, "web", 6)
            assert await where(at, made) == {"eu"}
            await until(lambda: shut(at, "us"))
        await until(lambda: tried_again(at), 90.0, what="us takes candidates again")


async def test_an_allowed_candidate_that_nobody_binds_goes_elsewhere(opened: Open, reserving_targets: Sandbox) -> None:
    async with opened(take_up=4.0) as at:
        for relay in at.relays.values():
            relay.freeze(lambda asked, path: asked == "PATCH" and "/podchaperons/" in path)
        await at.pod("web")
        chosen = await until(lambda: claimed(at))
        await reserving_targets.stop(chosen, "candidate-scheduler")
        try:
            for relay in at.relays.values():
                relay.mend()
                relay.break_streams()
            (other,) = at.far.keys() - {chosen}
            assert await where(at, ["web"], 90.0) == {other}
        finally:
            await reserving_targets.start(chosen, "candidate-scheduler")


async def claimed(at: Stage) -> str:
    """Return the target of the candidate that the pod is claimed for, before the candidate is allowed."""
    (pod,) = await at.proxies()
    claim = pod["metadata"]["annotations"].get(names.ANNOTATION_CLAIM)
    return next((name for name, target in at.targets.items() if target.node_name == claim), "")


async def test_the_target_says_that_it_refuses_pods_and_that_it_takes_them_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with Relay.started(load(str(cluster.kubeconfig))) as relay, running(cluster, TargetController) as deps:
        try:
            await enable(client, namespace)
            await add(client, namespace, "far", kubeconfig(cluster, server=relay.connection.server, user={}))
            await condition(client, namespace, "far", "Ready", "True")
            target = deps.targets.get((namespace, "far"))
            assert target is not None
            for number in range(3):
                target.refusal_backoff.refused(namespace, f"u{number}", "ServerError", "etcdserver: no space")
            told = await condition(client, namespace, "far", "AcceptsPods", "False", "ServerError")
            assert told["message"].endswith("etcdserver: no space")
            found = await client.get(TARGETS, "far", namespace)
            ready = find_condition(found["status"]["conditions"], "Ready")
            assert ready is not None
            assert ready["status"] == "True"
            target.refusal_backoff.accepted(namespace)
            await condition(client, namespace, "far", "AcceptsPods", "True", "Accepts")
        finally:
            await tear_away(client, namespace)
