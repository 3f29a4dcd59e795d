"""A namespace that one test leaves to another has nothing in it, and is as it was."""

from collections.abc import Awaitable, Callable

import pytest

from agent.api.kinds import CONFIGMAPS, EVENTS, NAMESPACES, PODS, RESOURCE_QUOTAS, SOURCES, TARGETS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.reuse import Key, Reuse
from tests.waiting import until

pytestmark = pytest.mark.full("Tests the tests' own reuse of namespaces.")

KEY = Key("cd", ("us",), enabled=True)
NAME = "e2e-left-to-others"


async def test_what_a_test_has_made_is_gone_before_another_one_comes(fleet: Fleet) -> None:
    reuse = Reuse(fleet.clients)
    async with fleet.namespace(targets=("us",), name=NAME):
        await reuse.remember(NAME, KEY)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), NAME)
        for client in fleet.clients.values():
            await client.create(CONFIGMAPS, {"metadata": {"name": "own"}}, NAME)
        await fleet.running(NAME, "web", 2)
        assert await reuse.give_back(NAME)
        assert NAME in reuse.free
        assert await reuse.take(KEY._replace(targets=("eu",))) == ""
        assert await until(lambda: reuse.take(KEY), 60) == NAME
        for client in fleet.clients.values():
            for kind in (DEPLOYMENTS, PODS, EVENTS):
                assert await client.list(kind, NAME) == []
            assert [each["metadata"]["name"] for each in await client.list(CONFIGMAPS, NAME)] == ["kube-root-ca.crt"]
        assert reuse.rejected == []


async def label_it(fleet: Fleet, name: str) -> None:
    await fleet.source.patch(NAMESPACES, name, {"metadata": {"labels": {"mine": "true"}}})


async def annotate_its_target(fleet: Fleet, name: str) -> None:
    await fleet.source.patch(TARGETS, "us", {"metadata": {"annotations": {"mine": "true"}}}, name)


async def limit_it(fleet: Fleet, name: str) -> None:
    quota = {"metadata": {"name": "own"}, "spec": {"hard": {"pods": "9"}}}
    await fleet.source.create(RESOURCE_QUOTAS, quota, name)


@pytest.mark.parametrize("change", [label_it, annotate_its_target, limit_it])
async def test_one_that_was_changed_is_given_to_nobody(
    fleet: Fleet, change: Callable[[Fleet, str], Awaitable[None]]
) -> None:
    reuse = Reuse(fleet.clients)
    async with fleet.namespace(targets=("us",)) as name:
        await reuse.remember(name, KEY)
        await change(fleet, name)
        assert await reuse.give_back(name)
        assert await reuse.take(KEY) == ""
        assert reuse.rejected == [(name, "cd")]


async def test_one_with_more_targets_keeps_what_these_need_to_be_drained(fleet: Fleet) -> None:
    reuse = Reuse(fleet.clients)
    async with fleet.namespace(targets=("us",)) as name:
        await reuse.remember(name, KEY)
        await fleet.join(name, "eu")
        assert await reuse.give_back(name)
        assert await reuse.take(KEY) == ""
        assert reuse.rejected == [(name, "cd")]
        assert "deletionTimestamp" not in (await fleet.source.get(TARGETS, "eu", name))["metadata"]
        assert len(await fleet.clients["eu"].list(SOURCES, name)) == 1
