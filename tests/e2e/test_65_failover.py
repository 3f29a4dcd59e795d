"""Promise 65: pods of an unreachable target are replaced in others after its term, and its return disturbs
none."""

import asyncio
import contextlib
import random
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, TARGETS, Kind
from agent.api.names import LABEL_PARENT_UID, SHORT_PREFIX, lifecycle, moves, virtual_node
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from tests.e2e import manifests
from tests.e2e.claims import volumes
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS, JOBS, STATEFULSETS
from tests.e2e.test_63_mover import IGNORED, deploy, in_target, send, told, watched

Raw = dict[str, Any]

REPLICAS = 4
TERM = "10s"
NOTICED_SECONDS = 15.0
"""Most seconds from the end of the term until the first replacement of an unreachable target's pods is created."""
TIDY_SECONDS = 30.0
"""Most seconds that replaced pods may remain in a target that has returned."""
KILLS = 3


@dataclass
class Timeline:
    """Seconds from a network cut until a watch first reports each consequence."""

    elsewhere: str
    """Virtual node of the target that runs the replacements."""
    began: float = 0.0
    found: dict[str, float] = field(default_factory=dict)
    made: dict[str, float] = field(default_factory=dict)
    """Seconds until creation by the name of the replacement."""
    ready: dict[str, float] = field(default_factory=dict)
    """Seconds until a replacement is Ready in the other target."""
    stable: list[str] = field(default_factory=list)
    """Successive statuses of the condition Stable of all Targets."""

    def begin(self) -> None:
        """Record the time of the cut."""
        self.began = time.monotonic()

    def target(self, target: Object) -> None:
        """Record a change of a Target."""
        manifest = target.decode()
        self.stable.append(condition(manifest, lifecycle.STABLE).get("status", ""))
        for what, status in (("Reachable", "False"), (lifecycle.TARGET_LOST, "True")):
            if self.began and condition(manifest, what).get("status") == status:
                self.found.setdefault(f"{what}={status}", time.monotonic() - self.began)

    def pod(self, pod: Object) -> None:
        """Record a change of a pod."""
        after = time.monotonic() - self.began
        if self.began and moves.ANNOTATION_REPLACES in pod.annotations:
            self.made.setdefault(pod.name, after)
        if self.began and condition(pod.decode(), "Ready").get("status") == "True" and pod.node_name == self.elsewhere:
            self.ready.setdefault(pod.name, after)

    def __str__(self) -> str:
        replaced = sorted(self.ready.values())
        told = [f"{what} after {seconds:.1f} s" for what, seconds in self.found.items()]
        count = len(replaced)
        return ", ".join([*told, f"1 of {count} ready elsewhere after {replaced[0]:.1f} s, all {replaced[-1]:.1f} s"])


@contextlib.asynccontextmanager
async def cut_off(fleet: Fleet, namespace: str, *targets: str) -> AsyncIterator[None]:
    """Cut the links to targets and wait until their Targets are unreachable. Restore the links at the end."""
    for name in targets:
        await fleet.sandbox.set_link(name, up=False)
    try:
        for name in targets:
            await says(fleet, namespace, name, "Reachable", "False")
        yield
    finally:
        for name in targets:
            await fleet.sandbox.set_link(name, up=True)


async def says(fleet: Fleet, namespace: str, name: str, kind: str, status: str) -> Raw:
    """Return a condition of a Target, once it has this status."""

    async def said() -> Raw:
        found = condition(await fleet.source.get(TARGETS, name, namespace), kind)
        return found if found.get("status") == status else {}

    return await fleet.until(f"{kind} of {name} is {status}", said, about=namespace)


async def mark(fleet: Fleet, namespace: str, name: str, suffix: str, value: str | None) -> None:
    """Annotate a Target."""
    marks = {"metadata": {"annotations": {SHORT_PREFIX + suffix: value}}}
    await fleet.source.patch(TARGETS, name, marks, namespace)


@contextlib.asynccontextmanager
async def seen(client: Client, kind: Kind, namespace: str, note: Callable[[Object], None]) -> AsyncIterator[None]:
    """Call `note` with every state of an object that a watch reports."""
    informer = Informer(client, kind, namespace)
    running = asyncio.ensure_future(informer.run())
    try:
        await informer.synced.wait()
        informer.subscribe(lambda old, new: note(new) if new is not None else None)
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def create_job(fleet: Fleet, namespace: str, name: str, runs_for: str, **spec: Any) -> None:
    """Create a Job with one pod, whose containers run for this duration."""
    job = manifests.job(name, 1)
    job["spec"] |= spec
    job["spec"]["template"]["metadata"]["annotations"]["sandbox.flotilla/runs-for"] = runs_for
    await fleet.source.create(JOBS, job, namespace)
    await fleet.running(namespace, name, 1)


async def uids(fleet: Fleet, namespace: str, app: str) -> set[str]:
    """Return the UIDs of an application's pods."""
    return {pod["metadata"]["uid"] for pod in await fleet.pods(namespace, app)}


async def reason(fleet: Fleet, namespace: str, app: str) -> set[str]:
    """Return the reasons in the pods' conditions that explain a wrong place."""
    return {condition(pod, moves.CONDITION).get("reason", "") for pod in await fleet.pods(namespace, app)}


async def nothing_left(fleet: Fleet, namespace: str, target: str) -> None:
    """Wait until a target has neither chaperons nor delegates of a namespace."""

    async def empty() -> bool:
        client = fleet.clients[target]
        found = (
            await client.list(CHAPERONS, namespace),
            await client.list(PODS, namespace, labels=LABEL_PARENT_UID),
        )
        return not any(found)

    await fleet.until(f"nothing is left in {target}", empty, about=namespace)


async def test_pods_of_a_lost_target_are_replaced_and_what_comes_back_disturbs_no_replacement(
    fleet: Fleet, namespace: str
) -> None:
    await deploy(fleet, namespace, REPLICAS)
    await fleet.source.create(STATEFULSETS, manifests.stateful_set("db", 1), namespace)
    await in_target(fleet, namespace, "eu", 1, "db")
    await create_job(fleet, namespace, "work", "1h")
    await mark(fleet, namespace, "eu", lifecycle.FAILOVER_AFTER, TERM)
    await send(fleet, namespace, "eu > us")
    identities = await uids(fleet, namespace, "db") | await uids(fleet, namespace, "work")
    elsewhere: set[str] = set()
    timeline = Timeline(virtual_node(namespace, "us"))
    async with (
        watched(fleet, namespace) as history,
        seen(fleet.clients["us"], PODS, namespace, lambda pod: elsewhere.add(pod.name.split("-")[0])),
        seen(fleet.source, TARGETS, namespace, timeline.target),
        seen(fleet.source, PODS, namespace, timeline.pod),
    ):
        await create_job(fleet, namespace, "short", "12s")
        timeline.begin()
        async with cut_off(fleet, namespace, "eu"):
            await says(fleet, namespace, "eu", lifecycle.TARGET_LOST, "True")
            replacements = {pod["metadata"]["uid"] for pod in await in_target(fleet, namespace, "us", REPLICAS)}
            print(f"a term of {TERM}: {timeline}")
            assert float(TERM[:-1]) <= min(timeline.made.values()) <= float(TERM[:-1]) + NOTICED_SECONDS
            assert await reason(fleet, namespace, "db") == {"IdentityMayRun"}
            assert await reason(fleet, namespace, "work") == {"IdentityMayRun"}
            await fleet.until("a Job is done where nobody sees it", lambda: is_done(fleet, namespace), about=namespace)
        await replaced_are_gone(fleet, namespace)
        await says(fleet, namespace, "eu", lifecycle.TARGET_LOST, "False")

        async def complete() -> bool:
            return condition(await fleet.source.get(JOBS, "short", namespace), "Complete").get("status") == "True"

        await fleet.until("that it is done has come home", complete, about=namespace)
        await fleet.agree(namespace)
        await says(fleet, namespace, "eu", lifecycle.STABLE, "True")
        await in_target(fleet, namespace, "eu", 1, "db")
    assert await uids(fleet, namespace, "web") == replacements
    assert await uids(fleet, namespace, "db") | await uids(fleet, namespace, "work") == identities
    assert await reason(fleet, namespace, "db") == {"Placed"}
    assert elsewhere == {"web"}
    assert "False" in timeline.stable
    assert history.most <= 2 * REPLICAS + 3, "lost pods do not count"


async def replaced_are_gone(fleet: Fleet, namespace: str) -> None:
    """Wait, at most TIDY_SECONDS, until a returned target has neither chaperons nor delegates of the
    Deployment."""

    async def tidy() -> bool:
        eu = fleet.clients["eu"]
        found = [*await eu.list(CHAPERONS, namespace), *await eu.list(PODS, namespace, labels=LABEL_PARENT_UID)]
        return bool(found) and not any(each["metadata"]["name"].startswith("web-") for each in found)

    await fleet.until("what was replaced is gone", tidy, about=namespace, seconds=TIDY_SECONDS)


async def is_done(fleet: Fleet, namespace: str) -> bool:
    """Return True if the Job's pod has succeeded in eu. Only eu's own kubectl can reach its API server."""
    query = ("get", "pods", f"--namespace={namespace}", "--field-selector=status.phase=Succeeded", "--output=name")
    return "short" in await fleet.kubectl("eu", *query)


@pytest.mark.full("A variant of the failover of a Deployment.")
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.seldom)], ids=["led", "leader killed"])
async def test_what_must_not_run_twice_is_made_again_on_a_persons_word_only(
    fleet: Fleet, namespace: str, killed: bool
) -> None:
    await send(fleet, namespace, "eu")
    await fleet.source.create(STATEFULSETS, manifests.stateful_set("db", 2), namespace)
    await create_job(fleet, namespace, "work", "1h", backoffLimit=0, podFailurePolicy={"rules": [IGNORED]})
    await in_target(fleet, namespace, "eu", 2, "db")
    (old,) = await uids(fleet, namespace, "work")
    await send(fleet, namespace, "eu > us")
    async with watched(fleet, namespace):
        async with cut_off(fleet, namespace, "eu"):
            await mark(fleet, namespace, "eu", lifecycle.LOST, "true")
            if killed:
                await asyncio.sleep(random.uniform(0, 1))
                await fleet.sandbox.kill("cd", "agent")
                await fleet.sandbox.start("cd", "agent")
            names = {pod["metadata"]["uid"] for pod in await in_target(fleet, namespace, "us", 2, "db")}
            failed, again = await fleet.until(
                "the Job has another pod", lambda: failed_and_again(fleet, namespace), about=namespace, seconds=90
            )
            assert failed["metadata"]["uid"] == old
        await nothing_left(fleet, namespace, "eu")
        await mark(fleet, namespace, "eu", lifecycle.LOST, None)
        await says(fleet, namespace, "eu", lifecycle.TARGET_LOST, "False")
    assert await uids(fleet, namespace, "db") == names
    assert {pod["metadata"]["uid"] for pod in await failed_and_again(fleet, namespace)} == {
        old,
        again["metadata"]["uid"],
    }
    status = (await fleet.source.get(JOBS, "work", namespace))["status"]
    assert (status["active"], status.get("failed", 0)) == (1, 0)


async def failed_and_again(fleet: Fleet, namespace: str) -> list[Raw]:
    """Return the Job's pod that failed with its target and the one that runs in the other target; else an empty
    list."""
    pods = sorted(await fleet.pods(namespace, "work"), key=lambda pod: pod["status"]["phase"])
    if [pod["status"]["phase"] for pod in pods] != ["Failed", "Running"]:
        return []
    failed, again = pods
    disrupted = condition(failed, "DisruptionTarget")
    assert (failed["status"]["reason"], disrupted["status"], disrupted["reason"]) == (
        "TargetLost",
        "True",
        "TargetLost",
    )
    assert not condition(failed, moves.CONDITION)
    assert again["spec"]["nodeName"] == virtual_node(namespace, "us")
    return pods


@pytest.mark.seldom
async def test_a_pod_whose_volume_was_lost_is_made_anew_once_a_person_deletes_its_claim(
    fleet: Fleet, namespace: str
) -> None:
    made = manifests.stateful_set("db", 1)
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": namespace}
    claim["resources"] = {"requests": {"storage": "1Gi"}}
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    async with volumes(fleet, namespace):
        await send(fleet, namespace, "eu")
        await fleet.source.create(STATEFULSETS, made, namespace)
        before = await in_target(fleet, namespace, "eu", 1, "db")
        await send(fleet, namespace, "eu > us")
        async with cut_off(fleet, namespace, "eu"):
            await mark(fleet, namespace, "eu", lifecycle.LOST, "true")

            async def stays() -> bool:
                return await reason(fleet, namespace, "db") == {"DataElsewhere"}

            await fleet.until("it says that its data are elsewhere", stays, about=namespace)
            assert await uids(fleet, namespace, "db") == {pod["metadata"]["uid"] for pod in before}
            await fleet.source.delete(PERSISTENT_VOLUME_CLAIMS, "data-db-0", namespace)
            await fleet.source.delete(PODS, "db-0", namespace)
            after = await in_target(fleet, namespace, "us", 1, "db")
        await nothing_left(fleet, namespace, "eu")
        assert await uids(fleet, namespace, "db") == {pod["metadata"]["uid"] for pod in after}


@pytest.mark.seldom
async def test_where_no_target_has_room_nothing_is_deleted(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 2)
    before = await uids(fleet, namespace, "web")
    await mark(fleet, namespace, "eu", lifecycle.FAILOVER_AFTER, TERM)
    await fleet.source.patch(NODES, virtual_node(namespace, "us"), {"spec": {"unschedulable": True}})
    await send(fleet, namespace, None)
    async with watched(fleet, namespace) as history:
        async with cut_off(fleet, namespace, "eu"):
            await told(fleet, namespace, "NoRoom")
        await in_target(fleet, namespace, "eu", 2)
    assert await uids(fleet, namespace, "web") == before
    assert history.fewest_ready >= 2


@pytest.mark.seldom
async def test_a_target_that_is_back_before_its_replacements_are_available_keeps_its_pods(
    fleet: Fleet, namespace: str
) -> None:
    await deploy(fleet, namespace, 2, minReadySeconds=30)
    before = await uids(fleet, namespace, "web")
    await mark(fleet, namespace, "eu", lifecycle.FAILOVER_AFTER, TERM)
    await send(fleet, namespace, None)
    async with watched(fleet, namespace) as history:
        async with cut_off(fleet, namespace, "eu"):
            await told(fleet, namespace, "Moving")
        await in_target(fleet, namespace, "eu", 2)
    assert history.most > 2
    assert await uids(fleet, namespace, "web") == before
    await fleet.agree(namespace)


@pytest.mark.seldom
async def test_nothing_is_replaced_while_all_targets_are_away(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 2)
    before = await uids(fleet, namespace, "web")
    await send(fleet, namespace, None)
    for name in ("us", "eu"):
        await mark(fleet, namespace, name, lifecycle.FAILOVER_AFTER, TERM)
    async with watched(fleet, namespace) as history:
        async with cut_off(fleet, namespace, "us", "eu"):
            for name in ("us", "eu"):
                held = await says(fleet, namespace, name, lifecycle.FAILOVER_HELD, "True")
                assert held["reason"] == lifecycle.MOST_TARGETS_LOST
            # The terms of both targets have ended after this sleep.
            await asyncio.sleep(float(TERM[:-1]) + 2)
        for name in ("us", "eu"):
            await says(fleet, namespace, name, lifecycle.FAILOVER_HELD, "False")
        await fleet.agree(namespace)
    assert await uids(fleet, namespace, "web") == before
    assert (history.most, history.fewest_ready) == (2, 2)


@pytest.mark.seldom
async def test_a_target_that_is_cut_off_again_and_again_has_no_new_pods(fleet: Fleet, namespace: str) -> None:
    await deploy(fleet, namespace, 1)
    before = await uids(fleet, namespace, "web")
    # After the last cut, the pause is long enough to schedule new pods.
    for _ in range(5):
        async with cut_off(fleet, namespace, "eu"):
            pass
        await says(fleet, namespace, "eu", "Reachable", "True")

    async def flaps() -> bool:
        found = condition(await fleet.source.get(TARGETS, "eu", namespace), lifecycle.STABLE)
        times = re.search(r"(\d+) times", found.get("message", ""))
        return found.get("reason") == lifecycle.FLAPPING and times is not None and int(times[1]) >= 5

    await fleet.until("the Target says that it was away five times", flaps, about=namespace)
    await send(fleet, namespace, "eu > us")
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3}}, namespace)
    pods = await fleet.running(namespace, "web", 3)
    new = [pod for pod in pods if pod["metadata"]["uid"] not in before]
    assert len(new) == 2
    assert {pod["spec"]["nodeName"] for pod in new} == {virtual_node(namespace, "us")}
    await says(fleet, namespace, "eu", lifecycle.STABLE, "True")


@pytest.mark.seldom
async def test_pods_go_back_to_the_target_that_they_prefer_where_that_is_asked_for(
    fleet: Fleet, namespace: str
) -> None:
    await deploy(fleet, namespace, 1)
    marks = {SHORT_PREFIX + lifecycle.FAIL_BACK: lifecycle.AUTO}
    await fleet.source.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": marks}}, namespace)
    await mark(fleet, namespace, "eu", lifecycle.FAILOVER_AFTER, TERM)
    await send(fleet, namespace, "eu > us")
    async with watched(fleet, namespace) as history:
        async with cut_off(fleet, namespace, "eu"):
            await in_target(fleet, namespace, "us", 1)
        await in_target(fleet, namespace, "eu", 1)
    assert history.most <= 2
    await fleet.agree(namespace)


@pytest.mark.seldom
async def test_a_leader_killed_at_any_moment_of_a_failover_leaves_nothing_behind(fleet: Fleet, namespace: str) -> None:
    seed = secrets.randbits(32)
    print(f"moments of the kills: random.Random({seed})")
    moments = random.Random(seed)
    await deploy(fleet, namespace, REPLICAS)
    await mark(fleet, namespace, "eu", lifecycle.FAILOVER_AFTER, TERM)
    await send(fleet, namespace, "eu > us")
    async with watched(fleet, namespace) as history:
        async with cut_off(fleet, namespace, "eu"):
            await says(fleet, namespace, "eu", lifecycle.TARGET_LOST, "True")
            for _ in range(KILLS):
                await asyncio.sleep(moments.uniform(0.1, 5.0))
                await fleet.sandbox.kill("cd", "agent")
                await fleet.sandbox.start("cd", "agent")
            replacements = {pod["metadata"]["uid"] for pod in await in_target(fleet, namespace, "us", REPLICAS)}
        await fleet.agree(namespace)
    assert await uids(fleet, namespace, "web") == replacements
    assert history.most <= 2 * REPLICAS, "lost pods do not count"
