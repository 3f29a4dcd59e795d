"""Kinds that may not be served, against a server with changing responses."""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web

from agent.api.kinds import RESOURCE_QUOTAS
from agent.clusters import optional_watch
from agent.clusters.cluster import Cluster
from agent.clusters.optional_watch import OptionalWatch
from agent.kube.config import Connection
from agent.kube.store import Object
from tests.kube.test_session import serving
from tests.waiting import until

LIST = {"kind": "ResourceQuotaList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
LATER = 3600.0


async def watched(answer: Callable[[int], web.Response | None], probe: Callable[[OptionalWatch], bool]) -> int:
    """Return the number of requests until the kind has this state. `answer` maps their number to a response;
    None for a normal list."""
    count = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal count
        if "watch" in request.query:
            await asyncio.sleep(LATER)
        count += 1
        return answer(count) or web.json_response(LIST)

    async with serving(handle) as server:
        cluster = Cluster(Connection(server=server), "far")
        found = OptionalWatch(cluster.port, RESOURCE_QUOTAS, None, LATER, lambda old, new: None, lambda: None)
        try:
            await until(lambda: probe(found) or None)
        finally:
            found.stop()
            await cluster.close()
    return count


async def test_who_asks_again_when_told_knows_what_the_first_list_has() -> None:
    quota = {"metadata": {"name": "team-a", "namespace": "shop", "resourceVersion": "1", "uid": "1"}}
    seen: set[tuple[str, str]] = set()

    def look() -> None:
        if found.store is not None:
            seen.update(found.store.keys())

    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.sleep(LATER)
        return web.json_response(LIST | {"items": [quota]})

    async with serving(handle) as server:
        cluster = Cluster(Connection(server=server), "far")
        found = OptionalWatch(cluster.port, RESOURCE_QUOTAS, None, LATER, lambda old, new: look(), look)
        try:
            await until(lambda: seen == {("shop", "team-a")})
        finally:
            found.stop()
            await cluster.close()


async def test_nothing_is_told_while_there_is_nothing_to_believe_and_all_of_it_once_there_is() -> None:
    quotas = [{"metadata": {"name": name, "namespace": "shop", "resourceVersion": "1"}} for name in ("a", "b")]
    told: list[str] = []

    def changed(old: Object | None, new: Object | None) -> None:
        assert new is not None
        told.append(f"{new.name}: {'believed' if found.store is not None else 'too early'}")

    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await asyncio.sleep(LATER)
        return web.json_response(LIST | {"items": quotas})

    async with serving(handle) as server:
        cluster = Cluster(Connection(server=server), "far")
        found = OptionalWatch(cluster.port, RESOURCE_QUOTAS, None, LATER, changed, lambda: told.append("turned"))
        try:
            await until(lambda: len(told) == 3 or None)
        finally:
            found.stop()
            await cluster.close()
    assert told == ["turned", "a: believed", "b: believed"]


@pytest.mark.parametrize("status", [500, 503, 504])
async def test_a_server_that_fails_once_is_asked_again_soon(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_watch, "_NO_ANSWER_SECONDS", 0.05)
    failing = lambda number: web.json_response({}, status=status) if number == 1 else None  # noqa: E731
    assert await watched(failing, lambda found: found.store is not None) >= 2


@pytest.mark.parametrize("status", [403, 404])
async def test_a_server_that_refuses_is_not_asked_again_before_the_time(
    status: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(optional_watch, "_NO_ANSWER_SECONDS", 0.05)
    caplog.set_level("INFO")
    told = "resourcequotas are not watched in cluster far"
    refusing = lambda number: web.json_response({}, status=status)  # noqa: E731
    assert await watched(refusing, lambda found: told in caplog.text) == 1


class Forbidding:
    """A server that allows lists and watches, or forbids both."""

    def __init__(self) -> None:
        self.forbids = False
        self.requests = 0
        self._streams: list[asyncio.Event] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if self.forbids:
            return web.json_response({}, status=403)
        if "watch" not in request.query:
            quota = {"metadata": {"name": "team-a", "namespace": "shop", "resourceVersion": "1", "uid": "1"}}
            return web.json_response(LIST | {"items": [quota]})
        self._streams.append(ended := asyncio.Event())
        stream = web.StreamResponse()
        await stream.prepare(request)
        await ended.wait()
        return stream

    def forbid(self) -> None:
        """Forbid requests and end open watches, as an API server does on a restart."""
        self.forbids = True
        for ended in self._streams:
            ended.set()


async def test_what_is_forbidden_for_a_moment_is_believed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_watch, "_LOOK_SECONDS", 0.05)
    mood, turns = Forbidding(), list[bool]()
    async with serving(mood.handle) as server:
        cluster = Cluster(Connection(server=server), "far")
        turned = lambda: turns.append(found.store is not None)  # noqa: E731
        found = OptionalWatch(cluster.port, RESOURCE_QUOTAS, None, LATER, lambda old, new: None, turned)
        informer = cluster.port.informer(RESOURCE_QUOTAS)
        try:
            await until(lambda: turns == [True])
            mood.forbid()
            await until(lambda: informer.error is not None)
            await asyncio.sleep(0.2)
            mood.forbids = False
            await until(lambda: informer.error is None)
            await asyncio.sleep(0.2)
            assert turns == [True]
            assert found.store is not None
        finally:
            found.stop()
            await cluster.close()


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_is_forbidden_for_longer_is_asked_for_again_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_SECONDS", "_NO_ANSWER_SECONDS"):
        monkeypatch.setattr(optional_watch, name, 0.05)
    monkeypatch.setattr(optional_watch, "_BRIEF_SECONDS", 0.3)
    mood, turns = Forbidding(), list[bool]()
    async with serving(mood.handle) as server:
        cluster = Cluster(Connection(server=server), "far")
        turned = lambda: turns.append(found.store is not None)  # noqa: E731
        found = OptionalWatch(cluster.port, RESOURCE_QUOTAS, None, LATER, lambda old, new: None, turned)
        try:
            await until(lambda: turns == [True])
            mood.forbid()
            await until(lambda: turns == [True, False])
            asked = mood.requests
            await until(lambda: mood.requests > asked + 2)
            mood.forbids = False
            await until(lambda: turns == [True, False, True])
        finally:
            found.stop()
            await cluster.close()
