"""The extender in the agent, called by a real kube-scheduler; confirms the assumptions of the other tests."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import CHAPERONS, EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from agent.kube.client import Client
from agent.kube.errors import NotFound
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import connect
from tests.extender.candidates import (
    ALLOWED,
    ENDED,
    HOLD,
    RESERVED,
    ROUND,
    annotate,
    annotations,
    bound,
    candidate,
    chaperon,
    not_reserved,
    reserved,
)
from tests.namespaces import end
from tests.waiting import empty, gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

Raw = dict[str, Any]
NODES = 3
CPU = 4
FULL = {"cpu": "3500m", "nodeSelector": {"kubernetes.io/hostname": "t-node-0"}}
"""Resources of a pod that fits into the whole cluster only once."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """One cluster with agent and candidate scheduler; holds are short."""
    flags = ("--hold=4", "--pod-missing=1", "--lease-duration=3", "--lease-renew=2", "--lease-retry=0.5")
    async with Sandbox(
        tmp_path_factory.mktemp("candidates") / "one",
        ["t"],
        f"kwok:{NODES}",
        node_cpu=str(CPU),
        agent_flags=flags,
        candidate_scheduler=True,
    ) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def t(one: Sandbox) -> AsyncIterator[Client]:
    """Client with all permissions."""
    client = connect(one["t"].kubeconfig, name="t")
    async with client.session:
        yield client
        await asyncio.sleep(0.05)


@pytest_asyncio.fixture(loop_scope="module")
async def room(t: Client) -> AsyncIterator[str]:
    """Namespace; at the end, the whole cluster is empty again."""
    name = f"test-{secrets.token_hex(4)}"
    await t.create(NAMESPACES, {"metadata": {"name": name}})
    await until(lambda: t.get(SERVICE_ACCOUNTS, "default", name))
    yield name
    for kind in (CHAPERONS, PODS):
        for each in await t.list(kind, name):
            with contextlib.suppress(NotFound):
                await t.delete(kind, each["metadata"]["name"], name, grace=0)
    await until(lambda: empty(t.list(PODS, name)))
    await end(t, name)


@contextlib.asynccontextmanager
async def killed(one: Sandbox, *processes: str) -> AsyncIterator[None]:
    """Kill some processes, and start them again at the end."""
    for process in processes:
        await one.kill("t", process)
    try:
        yield
    finally:
        for process in processes:
            await one.start("t", process)


async def allow(t: Client, room: str, names: Iterable[str]) -> None:
    for name in names:
        await annotate(t, room, name, ALLOWED, "true")


async def runs(t: Client, room: str, name: str) -> Raw:
    """Wait until a chaperon reports that its candidate runs."""

    async def probe() -> Raw | None:
        found = await t.get(CHAPERONS, name, room)
        return found if found.get("status", {}).get("phase") == "Running" else None

    return await until(probe)


async def says(t: Client, room: str, name: str, reason: str, message: str = "") -> None:
    """Wait until a chaperon reports why its candidate is not scheduled."""

    async def probe() -> bool:
        return any(
            (each["type"], each.get("reason")) == ("PodScheduled", reason) and message in each.get("message", "")
            for each in (await t.get(CHAPERONS, name, room)).get("status", {}).get("conditions", ())
        )

    await until(probe)


async def test_four_are_reserved_at_once_three_are_allowed_and_run_and_one_is_refused_in_the_end(
    t: Client, room: str
) -> None:
    every = [f"web-{number}" for number in range(4)]
    for name in every:
        await t.create(CHAPERONS, chaperon(name, cpu="2"), room)
    for name in every:
        await reserved(t, room, name)
    assert [RESERVED in await annotations(t, room, name) for name in every] == [True] * 4
    assert [pod["spec"].get("nodeName") for pod in await t.list(PODS, room)] == [None] * 4
    await allow(t, room, every[:3])
    for name in every[:3]:
        await runs(t, room, name)
    said = await not_reserved(t, room, every[3])
    assert said[ENDED] == "0"
    await says(t, room, every[3], "SchedulerError", "waiting for its source to ask again")
    spread = [(await t.get(PODS, name, room))["spec"]["nodeName"] for name in every[:3]]
    assert len(set(spread)) > 1
    assert "nodeName" not in (await t.get(PODS, every[3], room))["spec"]


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_lost_source_gives_its_place_to_another_and_gets_one_when_it_asks_again(t: Client, room: str) -> None:
    await t.create(CHAPERONS, chaperon("lost", **FULL), room)
    await reserved(t, room, "lost")
    await t.create(CHAPERONS, chaperon("other", **FULL), room)
    await says(t, room, "other", "Unschedulable")
    assert (await not_reserved(t, room, "lost"))[ENDED] == "0"
    # The status is still Unschedulable, but the reservation wins.
    await reserved(t, room, "other")
    await says(t, room, "other", "Unschedulable")
    await allow(t, room, ["other"])
    found = await runs(t, room, "other")
    scheduled = [each["status"] for each in found["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert scheduled == ["True"]
    assert RESERVED not in await annotations(t, room, "lost")
    await t.delete(CHAPERONS, "other", room, propagation="Foreground")
    await says(t, room, "lost", "SchedulerError", "waiting for its source to ask again")
    await annotate(t, room, "lost", ROUND, "1")
    await reserved(t, room, "lost")
    await allow(t, room, ["lost"])
    await runs(t, room, "lost")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_candidate_of_admiraltys_is_reserved_again_after_each_hold(t: Client, room: str) -> None:
    await t.create(CHAPERONS, chaperon("web", rounds=False), room)
    first = await reserved(t, room, "web")
    await not_reserved(t, room, "web")
    await reserved(t, room, "web", other_than=first)
    await allow(t, room, ["web"])
    await runs(t, room, "web")


@pytest.mark.full("Kills processes and waits for their leases; the first tier keeps what a reservation means.")
@pytest.mark.parametrize("process", ["agent", "candidate-scheduler"])
async def test_a_process_that_is_killed_while_it_holds_does_no_harm(
    one: Sandbox, t: Client, room: str, process: str
) -> None:
    await t.create(CHAPERONS, chaperon("web"), room)
    first = await reserved(t, room, "web")
    async with killed(one, process):
        pass
    await reserved(t, room, "web", other_than=first)
    assert ENDED not in await annotations(t, room, "web")
    await allow(t, room, ["web"])
    await runs(t, room, "web")


@pytest.mark.seldom
async def test_a_round_that_is_over_stays_over_in_an_agent_that_starts_anew(one: Sandbox, t: Client, room: str) -> None:
    await t.create(CHAPERONS, chaperon("web"), room)
    await reserved(t, room, "web")
    await not_reserved(t, room, "web")
    async with killed(one, "agent"):
        await until(lambda: refused(t, room, "connection refused"))
    await until(lambda: refused(t, room, "waiting for its source to ask again"))
    assert RESERVED not in await annotations(t, room, "web")
    await allow(t, room, ["web"])
    await runs(t, room, "web")


@pytest.mark.seldom
async def test_a_candidate_whose_round_is_over_is_tried_again_and_again_without_a_write(
    one: Sandbox, t: Client, room: str
) -> None:
    await t.create(CHAPERONS, chaperon("web"), room)
    await reserved(t, room, "web")
    await says(t, room, "web", "SchedulerError", "waiting for its source")
    before = await attempts(one)

    async def versions() -> list[str]:
        found = [await t.list(kind, room) for kind in (PODS, CHAPERONS)]
        return [each["metadata"]["resourceVersion"] for objects in found for each in objects]

    async def two_more() -> bool:
        return await attempts(one) >= before + 2

    known = await versions()
    await until(two_more)
    assert await versions() == known


async def attempts(one: Sandbox) -> int:
    """Return how often the log of the scheduler records the end of a round."""
    log = one["t"].log("candidate-scheduler")
    return (await asyncio.to_thread(log.read_text)).count("waiting for its source to ask again")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_leave_that_comes_while_the_agent_is_away_counts_when_it_is_back(
    one: Sandbox, t: Client, room: str
) -> None:
    await t.create(CHAPERONS, chaperon("web"), room)
    await reserved(t, room, "web")
    async with killed(one, "agent"):
        await allow(t, room, ["web"])
    await runs(t, room, "web")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_without_agent_and_scheduler_a_reservation_is_none_once_its_time_is_up(
    one: Sandbox, t: Client, room: str
) -> None:
    await t.create(CHAPERONS, chaperon("web"), room)
    await reserved(t, room, "web")
    async with contextlib.AsyncExitStack() as scheduler:
        async with killed(one, "agent"):
            # In the reverse order, the agent would observe the end of the connection.
            await scheduler.enter_async_context(killed(one, "candidate-scheduler"))
            assert HOLD in await annotations(t, room, "web")
        assert ENDED not in await not_reserved(t, room, "web")
    await reserved(t, room, "web")
    await allow(t, room, ["web"])
    await runs(t, room, "web")


async def test_a_pod_that_is_deleted_while_it_is_held_gives_up_its_place_and_the_next_of_its_name_gets_one(
    t: Client, room: str
) -> None:
    first = await candidate(t, room, "web", **FULL)
    mark = await reserved(t, room, "web")
    await t.delete(PODS, "web", room, grace=0)
    await reserved(t, room, "web", other_than=mark)
    assert (await t.get(PODS, "web", room))["metadata"]["uid"] != first["metadata"]["uid"]
    await allow(t, room, ["web"])
    await runs(t, room, "web")


async def test_a_chaperon_that_is_deleted_while_its_candidate_is_held_gives_up_its_place_and_may_come_again(
    t: Client, room: str
) -> None:
    for _ in range(2):
        await candidate(t, room, "web", **FULL)
        await reserved(t, room, "web")
        await t.delete(CHAPERONS, "web", room, propagation="Foreground")
        await gone(lambda: t.get(CHAPERONS, "web", room))
    await candidate(t, room, "web", **FULL)
    await reserved(t, room, "web")
    await allow(t, room, ["web"])
    assert await bound(t, room, "web") == "t-node-0"


async def test_a_pod_that_is_no_candidate_is_told_what_to_do(t: Client, room: str) -> None:
    spec = {"schedulerName": names.SCHEDULER_CANDIDATE, "containers": [{"name": "main", "image": "busybox"}]}
    await t.create(PODS, {"metadata": {"name": "stray"}, "spec": spec}, room)

    async def told() -> bool:
        events = await t.list(EVENTS, room)
        return any("is for candidates only, use another schedulerName" in event["message"] for event in events)

    await until(told)
    assert "nodeName" not in (await t.get(PODS, "stray", room))["spec"]


async def refused(t: Client, room: str, message: str) -> bool:
    """Return whether the pod itself has the reason why it was not bound, which needs no agent."""
    conditions = (await t.get(PODS, "web", room))["status"].get("conditions", ())
    return any(message in each.get("message", "") for each in conditions)
