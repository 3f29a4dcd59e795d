"""The mover does not block the event loop when one event concerns many pods."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import NAMESPACES, PODS
from agent.moves.mover.controller import Mover
from tests.controllers.offline import Offline, offline, quiet
from tests.waiting import until

MANY, TARGETS = 2000, 100
NODE = "flotilla-eu"


def put_pod(here: Offline, name: str, namespace: str, **annotations: str) -> None:
    said = {f"multicluster/{key.replace('_', '-')}": value for key, value in annotations.items()}
    here.put(
        here.deps.proxies.informer,
        PODS,
        name,
        namespace,
        metadata={"annotations": said, "creationTimestamp": "2026-11-30T12:00:00Z"},
        spec={"nodeName": NODE, "schedulerName": names.SCHEDULER_PROXY},
    )


class Calls:
    """Counts calls of a function, and the maximum between two turns of another task."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.of: list[Any] = []
        self.most = 0
        self._call = call
        self._before = 0

    def __call__(self, about: Any) -> Any:
        self.of.append(about)
        return self._call(about)

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, len(self.of) - self._before)
            self._before = len(self.of)
            await asyncio.sleep(0)


async def test_targets_that_have_been_there_for_a_while_have_the_pods_checked_that_ask_for_fail_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with offline(Mover, moves=True, fail_back_after=0.05) as (here, mover):
        for number in range(100):
            put_pod(here, f"web-{number}", "shop", targets="us > eu")
        put_pod(here, "asks", "shop", targets="us > eu", fail_back="auto")
        bank = {"annotations": {"multicluster/fail-back": "auto"}}
        here.put(here.deps.namespaces.informer, NAMESPACES, "bank", metadata=bank)
        put_pod(here, "till", "bank", targets="us > eu")
        await quiet(mover)
        checked = Calls(mover._is_concerned)
        monkeypatch.setattr(mover, "_is_concerned", checked)
        for number in range(TARGETS):
            mover._causes._fail_back.note(f"node-{number}", is_open=True)
        await until(lambda: len(checked.of) > 1)
        await asyncio.sleep(0.1)
        assert {pod.name for pod in checked.of} == {"asks", "till"}
        assert len(checked.of) < TARGETS


async def test_an_event_that_concerns_many_pods_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with offline(Mover, moves=True) as (here, mover):
        here.put(here.deps.namespaces.informer, NAMESPACES, "shop")
        for number in range(MANY):
            put_pod(here, f"web-{number}", "shop", targets="us > eu")
        await quiet(mover)
        checked = Calls(mover._is_concerned)
        monkeypatch.setattr(mover, "_is_concerned", checked)
        watch = asyncio.create_task(checked.watch())
        said = {"annotations": {"multicluster/anything": "else"}}
        here.put(here.deps.namespaces.informer, NAMESPACES, "shop", metadata=said)
        await until(lambda: len(checked.of) >= MANY)
        await asyncio.sleep(0)
        watch.cancel()
        assert checked.most < MANY
