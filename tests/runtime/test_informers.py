"""Silent watches of a cluster: their age as a metric, and the restart of an informer that hangs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.base.metrics import REGISTRY
from agent.kube.errors import Forbidden
from agent.runtime import informers as watches
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor
from tests.kube.pretending import KIND, Pretender, chaperon
from tests.waiting import until


@asynccontextmanager
async def started(server: Pretender) -> AsyncIterator[Informers]:
    async with Supervisor("test") as supervisor:
        yield Informers(server.client, supervisor)


def silent() -> float | None:
    """Return the metric's value for the only cluster of the test."""
    return REGISTRY.get_sample_value("flotilla_watch_silent_seconds", {"cluster": "", "resource": KIND.plural})


async def test_how_long_a_watch_has_heard_nothing_is_measured_as_long_as_it_goes_on() -> None:
    async with Pretender.started() as server, started(server) as informers:
        informer = informers.get(KIND)
        await until(informer.synced.is_set)
        informer.hearing.heard -= 1000
        assert 1000 <= (silent() or 0) < 1100
        server.tell("ADDED", chaperon("a", 101))
        await until(lambda: len(informer.store) == 1)
        assert 0 <= (silent() or 0) < 100
        informer.error = Forbidden(403, "Forbidden", "no")
        assert silent() is None
        informer.error = None
        assert silent() is not None
        informers.drop(informer)
        assert silent() is None
    assert silent() is None


async def test_a_watch_in_which_nothing_happens_begins_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watches, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watches, "SILENT_SECONDS", 0.2)
    async with Pretender.started() as server, started(server) as informers:
        informer = informers.get(KIND)
        await until(informer.synced.is_set)
        server.tell("ADDED", chaperon("a", 101))
        await until(lambda: len(informer.store) == 1)
        # Hang as in a call without a timeout.
        hung, follow = asyncio.Event(), informer._follow

        async def hangs() -> None:
            informer._follow = follow  # type: ignore[method-assign]
            hung.set()
            await asyncio.Event().wait()

        informer._follow = hangs  # type: ignore[method-assign]
        informer.interrupt()
        await hung.wait()
        for _, kept in informers._running.values():
            assert kept.attempt is not None
            kept.attempt.due = 0.0
        server.tell("ADDED", chaperon("b", 102))
        await until(lambda: len(informer.store) == 2)
    assert "stands still" in caplog.text
    assert " in hangs\n" in caplog.text
