"""Failures that keep a replica from working, and their consequences."""

import time
from collections.abc import Callable

import pytest

from agent.api.kinds import CONFIGMAPS
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.errors import Forbidden, KubeError, ServerError, Unreachable, Unreadable
from agent.kube.informer import Informer
from agent.kube.session import Session
from agent.runtime.supervisor import Supervisor
from agent.runtime.vitals import Judgement, Vitals
from agent.runtime.watchdog import Watchdog


async def failing(error: KubeError, seconds: float) -> Informer:
    """Return a watch that has failed for a number of seconds."""
    async with Session(Connection("http://127.0.0.1:1"), name="local") as session:
        informer = Informer(Client(session), CONFIGMAPS)
    informer.error = error
    informer.hearing.failing_since = time.monotonic() - seconds
    return informer


@pytest.mark.parametrize("error", [Unreachable("no answer"), Unreadable("nonsense")], ids=repr)
async def test_a_watch_that_has_failed_for_long_is_trouble(error: KubeError) -> None:
    vitals = Vitals([await failing(error, 61)], (), ())
    assert vitals.trouble(60) == f"configmaps cannot be watched: {error}"
    assert vitals.trouble(120) == ""


@pytest.mark.parametrize(
    "error", [Forbidden(403, "Forbidden", "no"), ServerError(500, "", "conversion webhook")], ids=["403", "500"]
)
async def test_what_an_api_server_refuses_is_no_trouble_of_a_replica(error: KubeError) -> None:
    assert Vitals([await failing(error, 3600)], (), ()).trouble(60) == ""


async def test_a_watch_that_works_again_is_none_and_one_that_hears_nothing_at_all_is() -> None:
    informer = await failing(Unreachable("no answer"), 3600)
    informer.error = None
    vitals = Vitals([informer], (), ())
    assert vitals.trouble(60) == ""
    informer.hearing.heard -= 3600
    assert vitals.trouble(60) == "the watch of configmaps has heard nothing for 3600 s"
    informer.hearing.well()
    assert vitals.trouble(60) == ""


async def test_tasks_and_controllers_are_told_of_together() -> None:
    class Task(Supervisor):
        def failing_for(self, seconds: float) -> dict[str, str]:
            return {"events": "OSError: no"} if seconds <= 60 else {}

    class Room(Watchdog):
        def trouble(self) -> str:
            return "feedback: work on a cannot be ended"

    vitals = Vitals((), [Task()], [Room("feedback", lambda: 0)])
    assert vitals.trouble(60) == "events fails again and again: OSError: no; feedback: work on a cannot be ended"


def since(start: float, now: float) -> Callable[[float], str]:
    """Return a problem that began at one time, as reported at another."""
    return lambda patience: "trouble" if now - start >= patience else ""


def test_a_replica_stands_down_once_soon_then_less_and_less_often_and_only_then_is_hopeless() -> None:
    judgement, downs = Judgement(60), []
    begun = 0.0
    for now in range(0, 4000, 5):
        # A new term begins without the problems of the previous one.
        if judgement.stands_down(since(begun, now), now):
            downs.append(now)
            begun = now
            assert bool(judgement.hopeless) == (len(downs) > 1)
    assert downs == [60, 180, 420, 900, 1860, 3780]


def test_trouble_that_was_long_ago_counts_no_more() -> None:
    judgement = Judgement(60)
    assert judgement.stands_down(since(0, 60), 60)
    for now in range(65, 1000, 5):
        assert not judgement.stands_down(lambda patience: "", now)
    assert judgement.stands_down(since(1000, 1060), 1060)
    assert judgement.hopeless == ""
