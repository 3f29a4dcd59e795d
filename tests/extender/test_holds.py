"""Binds on a real API server without a scheduler: the test calls the extender as the scheduler would."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.kinds import CHAPERONS, NODES, PODS
from agent.base.metrics import REGISTRY
from agent.extender.decide import ENDED as ROUND_IS_OVER
from agent.extender.decide import NOT_ALLOWED, STOPPING
from agent.kube.client import Client
from agent.pods.chaperon.controller import Chaperon
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
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
    not_reserved,
    reserved,
    serving,
)
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
SHORT = 0.5
LATER = "only its last attempt counts"


@pytest_asyncio.fixture(autouse=True)
async def chaperon_room(cluster: Cluster, namespace: str) -> AsyncIterator[None]:
    """Run the chaperon controller, which ends before the namespace does."""
    async with running(cluster, Chaperon, pod_missing=0.5):
        yield


@pytest_asyncio.fixture
async def node(client: Client) -> str:
    """Name of a node of the cluster."""
    (found, *_) = await client.list(NODES)
    return str(found["metadata"]["name"])


def count(outcome: str) -> float:
    return REGISTRY.get_sample_value("flotilla_extender_binds_total", {"outcome": outcome}) or 0.0


async def test_a_candidate_is_held_until_its_source_allows_it_and_bound_where_it_was_reserved(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    before = count("bound")
    async with serving(cluster) as asker, asker.binding(pod, node) as answer:
        await reserved(client, namespace, "web")
        assert REGISTRY.get_sample_value("flotilla_extender_holds") == 1
        assert not answer.done()
        assert "nodeName" not in (await client.get(PODS, "web", namespace))["spec"]
        await annotate(client, namespace, "web", ALLOWED, "true")
        assert await answer == ""
        assert await bound(client, namespace, "web") == node
    assert count("bound") == before + 1
    assert REGISTRY.get_sample_value("flotilla_extender_holds") == 0


async def test_what_is_allowed_already_is_bound_at_once_and_nothing_is_written_on_its_chaperon(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    await annotate(client, namespace, "web", ALLOWED, "true")
    async with serving(cluster) as asker:
        assert await asker.bind(pod, node) == ""
    assert await bound(client, namespace, "web") == node
    assert RESERVED not in await annotations(client, namespace, "web")


async def test_a_round_that_nobody_allowed_is_over_until_a_higher_one_is_asked_for_whoever_is_asked(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster, hold=SHORT) as asker:
        assert await asker.bind(pod, node) == NOT_ALLOWED
        said = await annotations(client, namespace, "web")
        assert (RESERVED in said, HOLD in said, said[ENDED]) == (False, False, "0")
        assert await asker.bind(pod, node) == ROUND_IS_OVER
    async with serving(cluster) as asker:
        assert await asker.bind(pod, node) == ROUND_IS_OVER
        assert await annotations(client, namespace, "web") == said
        await annotate(client, namespace, "web", ROUND, "1")
        async with asker.binding(pod, node, past=ROUND_IS_OVER) as answer:
            await reserved(client, namespace, "web")
            await annotate(client, namespace, "web", ALLOWED, "true")
            assert await answer == ""


async def test_a_candidate_of_admiraltys_is_held_again_each_time(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web", rounds=False)
    async with serving(cluster, hold=SHORT) as asker:
        for _ in range(2):
            async with asker.binding(pod, node) as answer:
                await reserved(client, namespace, "web")
                assert await answer == NOT_ALLOWED
            assert not {RESERVED, HOLD, ENDED} & (await annotations(client, namespace, "web")).keys()


async def test_pods_that_are_not_ours_or_not_waiting_are_refused_and_nothing_is_written(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    spec = {"schedulerName": names.SCHEDULER_CANDIDATE, "containers": [{"name": "main", "image": "busybox"}]}
    stray = await client.create(PODS, {"metadata": {"name": "stray"}, "spec": spec}, namespace)
    missing = {"metadata": {"name": "no", "namespace": namespace, "uid": "u"}}
    async with serving(cluster) as asker:
        assert "is not controlled by a PodChaperon of its name" in await asker.bind(stray, node)
        assert "does not exist any more" in await asker.bind(missing, node)
        assert f"has UID {pod['metadata']['uid']}, not other" in await asker.bind(pod, node, PodUID="other")
        assert not {RESERVED, HOLD} & (await annotations(client, namespace, "web")).keys()
        await annotate(client, namespace, "web", ALLOWED, "true")
        assert await asker.bind(pod, node) == ""

        async def known_as_bound() -> bool:
            return f"is already bound to node {node}" in await asker.bind(pod, node)

        # Until the watch delivers the binding, the message is the API server's.
        await until(known_as_bound)
    assert "nodeName" not in (await client.get(PODS, "stray", namespace))["spec"]
    await client.delete(PODS, "stray", namespace, grace=0)


async def test_a_pod_that_is_deleted_while_it_is_held_ends_its_hold_and_the_next_of_its_name_is_another(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster) as asker:
        async with asker.binding(pod, node) as answer:
            await reserved(client, namespace, "web")
            await client.delete(PODS, "web", namespace, grace=0)
            # Depends on the event that is observed first.
            assert re.search("being deleted|does not exist any more|has UID", await answer)
        said = await not_reserved(client, namespace, "web")
        assert ENDED not in said

        async def made_again() -> Raw | None:
            found = await client.get(PODS, "web", namespace)
            return found if found["metadata"]["uid"] != pod["metadata"]["uid"] else None

        # The controller immediately replaces a pod that never ran.
        again = await until(made_again)
        await annotate(client, namespace, "web", ALLOWED, "true")
        assert "deleted and created again" in await asker.bind(pod, node)
        assert "nodeName" not in (await client.get(PODS, "web", namespace))["spec"]
        assert await asker.bind(again, node) == ""


async def test_a_chaperon_that_is_deleted_while_its_candidate_is_held_ends_the_hold(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster) as asker, asker.binding(pod, node) as answer:
        await reserved(client, namespace, "web")
        await client.delete(CHAPERONS, "web", namespace, propagation="Foreground")
        assert re.search("being deleted|does not exist any more", await answer)
        await gone(lambda: client.get(CHAPERONS, "web", namespace))


async def test_of_two_attempts_only_the_last_is_bound(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster) as asker, asker.binding(pod, "elsewhere") as first:
        mark = await reserved(client, namespace, "web")
        async with asker.binding(pod, node) as second:
            assert LATER in await first
            await reserved(client, namespace, "web", other_than=mark)
            await annotate(client, namespace, "web", ALLOWED, "true")
            assert await second == ""
    assert await bound(client, namespace, "web") == node


async def test_of_two_replicas_only_the_one_that_was_asked_last_binds(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster) as one, serving(cluster) as two, one.binding(pod, "elsewhere") as first:
        mark = await reserved(client, namespace, "web")
        async with two.binding(pod, node) as second:
            assert LATER in await first
            await reserved(client, namespace, "web", other_than=mark)
            await annotate(client, namespace, "web", ALLOWED, "true")
            assert await second == ""
    assert await bound(client, namespace, "web") == node


async def test_a_scheduler_that_hangs_up_leaves_no_reservation_and_the_round_goes_on(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster) as asker:
        async with asker.binding(pod, node):
            await reserved(client, namespace, "web")
        assert ENDED not in await not_reserved(client, namespace, "web")
        async with asker.binding(pod, node) as answer:
            await reserved(client, namespace, "web")
            await annotate(client, namespace, "web", ALLOWED, "true")
            assert await answer == ""


async def test_leave_that_was_given_outlasts_a_scheduler_that_hangs_up(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster) as asker:
        async with asker.binding(pod, "elsewhere"):
            await reserved(client, namespace, "web")
        await not_reserved(client, namespace, "web")
        await annotate(client, namespace, "web", ALLOWED, "true")
        assert await asker.bind(pod, node) == ""


async def test_an_agent_that_stops_answers_and_takes_its_reservations_back(
    cluster: Cluster, client: Client, namespace: str, node: str
) -> None:
    pod = await candidate(client, namespace, "web")
    async with serving(cluster) as asker:
        answer = asyncio.create_task(asker.bind(pod, node))
        await reserved(client, namespace, "web")
        answers = asyncio.gather(answer, return_exceptions=True)
    assert await answers == [STOPPING]
    said = await annotations(client, namespace, "web")
    assert not {RESERVED, HOLD, ENDED} & said.keys()


async def test_an_api_server_that_refuses_the_bind_is_quoted(cluster: Cluster, client: Client, namespace: str) -> None:
    pod = await candidate(client, namespace, "web")
    await annotate(client, namespace, "web", ALLOWED, "true")
    async with serving(cluster) as asker:
        first = await asker.bind(pod, "a-node")
        assert first == ""
        # The extender's watch may be late: the API server decides.
        assert "already" in await asker.bind(pod, "b-node")
    assert await bound(client, namespace, "web") == "a-node"


async def test_many_are_held_at_the_same_time(cluster: Cluster, client: Client, namespace: str, node: str) -> None:
    count = 30
    pods = [await candidate(client, namespace, f"web-{number}") for number in range(count)]
    async with serving(cluster) as asker:
        answers = asyncio.gather(*(asker.bind(pod, node) for pod in pods))
        for number in range(count):
            await reserved(client, namespace, f"web-{number}")
        assert REGISTRY.get_sample_value("flotilla_extender_holds") == count
        for number in range(count):
            await annotate(client, namespace, f"web-{number}", ALLOWED, "true")
        assert set(await answers) == {""}
