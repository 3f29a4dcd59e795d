"""Timeouts of requests and watches: every network await is bounded and can be cancelled."""

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import web

from agent.api.kinds import CONFIGMAPS
from agent.kube import responsiveness
from agent.kube.client import Client
from agent.kube.config import Connection, load
from agent.kube.errors import Unreachable
from agent.kube.session import Session
from hack.lab.sandbox import Cluster, Sandbox, SandboxError
from tests.kube.test_session import raw_server, read_all, serving


@pytest.mark.parametrize("first", ["cancelled", "timed out"])
async def test_a_request_that_is_cancelled_as_its_time_is_up_is_cancelled(first: str) -> None:
    """On a busy machine both arrive in one turn of the event loop: the timeout used to revoke the cancellation."""
    async with raw_server(None) as url, Session(Connection(url), timeout=1.0) as session:
        loop = asyncio.get_running_loop()
        began = loop.time()
        task = asyncio.create_task(session.request("GET", "/api"))
        loop.call_at(began + (0.9 if first == "cancelled" else 1.1), task.cancel)
        loop.call_at(began + 0.2, time.sleep, 1.2)
        await asyncio.wait([task])
        assert task.cancelled()


@contextlib.contextmanager
def no_lookups(session: Session):  # type: ignore[no-untyped-def]
    """Occupy the session's threads, as a name server that does not answer does."""
    release = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(release.wait)
        session.resolver._threads = threads
        try:
            yield
        finally:
            release.set()


async def test_who_waits_for_a_session_that_is_closed_is_told_so_and_not_cancelled() -> None:
    """A cancelled controller worker ends without an error: once, all waiting workers ended that way."""
    async with Session(Connection("http://localhost:1"), timeout=20) as session:
        with no_lookups(session):
            waiting = [asyncio.create_task(session.request("GET", "/api")) for _ in range(3)]
            watching = asyncio.create_task(read_all(session))
            await asyncio.sleep(0.05)
            await session.close()
            found = await asyncio.gather(*waiting, watching, return_exceptions=True)
    assert [type(each) for each in found] == [Unreachable] * 4
    assert "given up" in str(found[0])


async def test_a_name_server_that_does_not_answer_holds_up_its_own_session_alone() -> None:
    async with Session(Connection("http://localhost:1"), timeout=0.2) as session:
        with no_lookups(session):
            with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
                await session.request("GET", "/api")
            assert await asyncio.to_thread(lambda: "done") == "done"


async def test_a_watch_that_never_begins_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responsiveness, "OPENING_SECONDS", 0.2)
    async with raw_server(None) as url, Session(Connection(url)) as session:
        with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
            await session.stream("/api", idle=3600).__aenter__()


async def test_a_watch_that_has_begun_may_be_silent_for_longer_than_it_may_take_to_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responsiveness, "OPENING_SECONDS", 0.1)

    async def late(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(0.3)
        await response.write(b"{}\n")
        return response

    async with serving(late) as url, Session(Connection(url)) as session, session.stream("/api") as stream:
        assert [line async for line in stream] == [b"{}\n"]


async def trickle(request: web.Request) -> web.StreamResponse:
    """Serve a list that takes a second to arrive, as over a slow link."""
    response = web.StreamResponse()
    await response.prepare(request)
    body = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
    for place in range(0, len(body), 5):
        await response.write(body[place : place + 5])
        await asyncio.sleep(0.1)
    return response


async def test_a_list_may_take_as_long_as_it_keeps_coming() -> None:
    async with serving(trickle) as url, Session(Connection(url), timeout=0.6) as session:
        assert await Client(session).list(CONFIGMAPS) == []
        with pytest.raises(Unreachable, match=r"no answer within 0\.6 s"):
            await session.request("GET", "/api")


async def test_a_list_that_stops_coming_or_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stops(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"metadata":')
        await asyncio.sleep(3600)
        return response

    async with serving(stops) as url, Session(Connection(url), timeout=0.2) as session:
        with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
            await Client(session).list(CONFIGMAPS)
    monkeypatch.setattr(responsiveness, "LONGEST_SECONDS", 0.3)
    async with serving(trickle) as url, Session(Connection(url), timeout=0.2) as session:
        with pytest.raises(Unreachable, match=r"has not ended within 0\.3 s"):
            await Client(session).list(CONFIGMAPS)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.cluster
async def test_a_watch_whose_api_server_is_gone_without_a_word_ends_by_itself(
    cluster: Cluster, sandbox: Sandbox
) -> None:
    async def watch(begun: asyncio.Event) -> None:
        params = {"watch": "1", "resourceVersion": "0"}
        async with (
            Session(load(str(cluster.kubeconfig))) as session,
            session.stream(CONFIGMAPS.path("default"), params=params, idle=3600) as stream,
        ):
            async for _ in stream:
                begun.set()

    begun = asyncio.Event()
    watching = asyncio.create_task(watch(begun))
    await asyncio.wait_for(begun.wait(), 20)
    try:
        await sandbox.set_link(cluster.name, up=False)
        _, pending = await asyncio.wait([watching], timeout=120)
        assert not pending
        with pytest.raises(Unreachable):
            await watching
    except SandboxError as error:
        pytest.skip(str(error))
    finally:
        watching.cancel()
        with contextlib.suppress(SandboxError):
            await sandbox.set_link(cluster.name, up=True)
