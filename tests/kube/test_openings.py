"""Watches that are opened at the same time: a limited number, of which silent clusters keep none for long."""

import asyncio

import pytest

from agent.kube import openings
from agent.kube.config import Connection
from agent.kube.errors import Unreachable
from agent.kube.openings import AT_ONCE, Openings
from agent.kube.session import Session


async def test_a_limited_number_of_watches_is_opened_at_the_same_time() -> None:
    shared = Openings()
    ends = [await shared.begin() for _ in range(AT_ONCE)]
    waiting = asyncio.create_task(shared.begin())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    ends[0]()
    ends[0]()
    end = await waiting
    another = asyncio.create_task(shared.begin())
    await asyncio.sleep(0.01)
    assert not another.done(), "an opening ends once"
    end()
    for each in (await another, *ends):
        each()


async def test_an_opening_without_an_answer_delays_no_other_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openings, "LONGEST_SECONDS", 0.05)
    shared = Openings()
    for _ in range(AT_ONCE):
        await shared.begin()
    async with asyncio.timeout(5):
        (await shared.begin())()


async def test_a_watch_of_the_local_cluster_does_not_wait_for_those_of_targets() -> None:
    shared = Openings()
    for _ in range(AT_ONCE):
        await shared.begin()
    async with Session(Connection("http://127.0.0.1:1")) as session:
        with pytest.raises(Unreachable):
            async with asyncio.timeout(0.5), session.stream("/"):
                pytest.fail("nobody listens there")
        session.openings = shared
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), session.stream("/"):
                pytest.fail("nobody listens there")
