"""An informer whose cluster does not answer: it retries rarely, and keeps no object of a failed attempt alive."""

import asyncio
import time

import pytest

from agent.api.kinds import PODS
from agent.kube import informer as module
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.informer import Informer
from agent.kube.session import Session
from tests.waiting import until


async def test_it_rests_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.random, "random", lambda: 1.0)
    async with Session(Connection("http://127.0.0.1:1")) as session:
        informer, failures = Informer(Client(session), PODS), list[float]()
        informer.on_failure(lambda: failures.append(time.monotonic()))
        informer.rest()
        run = asyncio.create_task(informer.run())
        await until(lambda: failures)
        await asyncio.sleep(1.0)
        assert len(failures) == 1, "without a rest it would have tried again after 0.2 s"
        informer.interrupt()
        await until(lambda: len(failures) > 3, what="it tries as often as before")
        run.cancel()
        assert informer.error is not None
        assert informer.error.__traceback__ is informer.error.__cause__.__traceback__ is None  # type: ignore[union-attr]


async def test_an_interruption_during_a_list_does_not_stop_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST_SECONDS", 3.0)
    monkeypatch.setattr(module.random, "random", lambda: 1.0)
    async with Session(Connection("http://127.0.0.1:1")) as session:
        informer, failures = Informer(Client(session), PODS), list[float]()
        informer.on_failure(lambda: failures.append(time.monotonic()))
        # The cluster answers a probe while a list runs, then falls silent before the list ends.
        informer.interrupt()
        informer.rest()
        run, began = asyncio.create_task(informer.run()), time.monotonic()
        await until(lambda: failures, what="it tries again at once, then rests")
        assert time.monotonic() - began < 2.0
        run.cancel()
