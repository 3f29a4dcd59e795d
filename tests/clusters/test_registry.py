"""Targets and their subscribers: a failing subscriber does not affect the others."""

from agent.clusters.target import State, Target
from agent.kube.config import Connection
from tests.clusters.test_target import registry
from tests.waiting import until

NOWHERE = Connection("http://127.0.0.1:1")


def broken(target: Target) -> None:
    raise ValueError("of all things")


async def test_controllers_are_told_of_a_target_once_it_is_known_to_be_the_right_cluster() -> None:
    told: list[str] = []
    async with registry(NOWHERE) as targets:
        targets.on_attach(lambda target: told.append("attach"))
        targets.on_detach(lambda target: told.append("detach"))
        target = await targets.connect(("team", "eu"), NOWHERE, "1")
        await until(lambda: target.record.state is State.UNREACHABLE)
        assert told == []
        target.identify()
        target.identify()
        later: list[str] = []
        targets.on_attach(lambda target: later.append(target.title))
        assert (told, later) == (["attach"], ["eu"])
        # Its replacement may point to another cluster.
        await targets.connect(("team", "eu"), NOWHERE, "2")
        assert (told, later) == (["attach", "detach"], ["eu"])


async def test_targets_are_found_by_namespace_and_by_finalizer_until_they_are_removed() -> None:
    async with registry(NOWHERE) as targets:
        everywhere = await targets.connect(("", "us"), NOWHERE, "1")
        own = await targets.connect(("team", "eu"), NOWHERE, "1")
        assert targets.serving("team") == [own, everywhere]
        assert targets.serving("other") == targets.serving("") == [everywhere]
        assert targets.by_finalizer(own.finalizer) is own
        assert own.cluster.client.session.openings is everywhere.cluster.client.session.openings is not None
        again = await targets.connect(("team", "eu"), NOWHERE, "2")
        assert targets.serving("team") == [again, everywhere]
        assert targets.by_finalizer(own.finalizer) is again is not own
        await targets.disconnect(("team", "eu"))
        assert targets.serving("team") == [everywhere]
        assert targets.by_finalizer(own.finalizer) is None


async def test_a_listener_that_fails_keeps_no_other_from_hearing_and_ends_no_task_of_a_target() -> None:
    attached: list[str] = []
    states: list[State] = []
    detached: list[str] = []
    async with registry(NOWHERE) as targets:
        for listen in (targets.on_attach, targets.on_change, targets.on_detach):
            listen(broken)
        targets.on_attach(lambda target: attached.append(target.title))
        targets.on_change(lambda target: states.append(target.record.state))
        targets.on_detach(lambda target: detached.append(target.title))
        target = await targets.connect(("team", "eu"), NOWHERE, "1")
        target.identify()
        assert attached == ["eu"]
        await until(lambda: State.UNREACHABLE in states)
        failures = target.record.failures
        await until(lambda: target.record.failures > failures + 3)
        await targets.disconnect(("team", "eu"))
        assert detached == ["eu"]


async def test_a_target_that_becomes_slow_is_news_for_those_alone_who_ask_how_promptly_it_answers() -> None:
    changes: list[str] = []
    slow: list[bool] = []
    async with registry(NOWHERE) as targets:
        target = await targets.connect(("team", "eu"), NOWHERE, "1")
        await until(lambda: target.record.state is State.UNREACHABLE)
        targets.on_change(lambda target: changes.append(target.record.message))
        targets.on_latency(lambda target: slow.append(target.slow))
        pace = target.cluster.client.session.pace
        waiting = pace.begin()
        await until(lambda: slow == [True])
        pace.end(waiting)
        pace.end(pace.begin())
        await until(lambda: slow == [True, False])
        assert changes == []
