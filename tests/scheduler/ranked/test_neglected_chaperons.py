"""Chaperons that neither agent nor scheduler handles, with a simulated clock."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from agent.scheduler.ranked.neglected_chaperons import NeglectedChaperons
from tests.scheduler.test_limits import names, pod

if TYPE_CHECKING:
    from agent.kube.store import Key

pytestmark = pytest.mark.looptime

SECONDS = 60.0


@dataclass(frozen=True)
class Chaperon:
    """Chaperon with only the fields that the code reads."""

    uid: str
    scheduler_name: str = "default-scheduler"


def chaperon(uid: str, scheduler: str = "default-scheduler") -> Any:
    return Chaperon(uid, scheduler)


async def test_a_chaperon_is_neglected_when_nobody_takes_it_up_for_its_time() -> None:
    woken: list[Key] = []
    takeup = NeglectedChaperons(SECONDS, woken.append)
    takeup.begin(pod("web"), chaperon("c1"), "eu")
    await asyncio.sleep(SECONDS - 1)
    takeup.begin(pod("web"), chaperon("c1"), "eu")
    assert not takeup.is_neglected("uid-web")
    assert woken == []
    await asyncio.sleep(2)
    assert takeup.is_neglected("uid-web")
    assert names(woken) == ["web"]
    await asyncio.sleep(SECONDS)
    assert names(woken) == ["web", "web"], "what could not be done is tried again"


async def test_another_chaperon_of_the_pod_waits_anew() -> None:
    takeup = NeglectedChaperons(SECONDS, print)
    takeup.begin(pod("web"), chaperon("c1"), "eu")
    await asyncio.sleep(SECONDS - 1)
    takeup.begin(pod("web"), chaperon("c2"), "us")
    await asyncio.sleep(2)
    assert not takeup.is_neglected("uid-web")


async def test_one_that_is_taken_up_or_gone_is_neglected_no_more() -> None:
    woken: list[Key] = []
    takeup = NeglectedChaperons(SECONDS, woken.append)
    for name in ("a", "b"):
        takeup.begin(pod(name), chaperon(f"c-{name}"), "eu")
    assert takeup.taken("uid-a")
    assert not takeup.taken("uid-a"), "that is no news"
    takeup.forget("uid-b")
    await asyncio.sleep(2 * SECONDS)
    assert woken == []
    assert not takeup.is_neglected("uid-a")


async def test_as_long_as_a_scheduler_takes_up_others_it_is_at_work() -> None:
    woken: list[Key] = []
    takeup = NeglectedChaperons(SECONDS, woken.append)
    takeup.begin(pod("last"), chaperon("c-last"), "eu")
    takeup.begin(pod("odd"), chaperon("c-odd", "nobody"), "eu")
    takeup.begin(pod("away"), chaperon("c-away"), "us")
    for number in range(4):
        await asyncio.sleep(SECONDS / 2)
        takeup.begin(pod(f"p{number}"), chaperon(f"c{number}"), "eu")
        takeup.taken(f"uid-p{number}")
    assert not takeup.is_neglected("uid-last")
    assert takeup.is_neglected("uid-odd"), "another scheduler"
    assert takeup.is_neglected("uid-away"), "another target"
    assert "last" not in names(woken)
    await asyncio.sleep(SECONDS + 1)
    assert takeup.is_neglected("uid-last")
    assert "last" in names(woken)
