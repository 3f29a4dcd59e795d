"""Who may wait for a target to answer, and who stands in line for that."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from agent.scheduler.lines import Lines
from tests.scheduler.test_turnstile import names, pod

if TYPE_CHECKING:
    from agent.kube.store import Key


@dataclass(frozen=True)
class At:
    """All that lines know of a target."""

    node_name: str


EU: Any = At("eu")
US: Any = At("us")


async def test_pods_in_line_keep_their_place_however_often_they_are_looked_at() -> None:
    woken: list[Key] = []
    lines = Lines({"eu": 1}.__getitem__, woken.append)
    with lines.turn(pod("begun"), EU) as begun:
        assert begun
        for name in ("first", "second", "second", "first"):
            with lines.turn(pod(name), EU) as turn:
                assert not turn
    assert names(woken) == ["first"]
    with lines.turn(pod("late"), EU) as late:
        assert not late
    with lines.turn(pod("first"), EU) as first:
        assert first
    assert names(woken) == ["first", "second"]


async def test_one_target_does_not_hold_up_another() -> None:
    lines = Lines({"eu": 1, "us": 1}.__getitem__, print)
    with lines.turn(pod("a"), EU) as a, lines.turn(pod("b"), US) as b:
        assert (a, b) == (True, True)


async def test_a_pod_that_goes_elsewhere_or_nowhere_leaves_its_line() -> None:
    woken: list[Key] = []
    lines = Lines({"eu": 1, "us": 1}.__getitem__, woken.append)
    with lines.turn(pod("begun"), EU):
        for name in ("elsewhere", "nowhere", "here"):
            with lines.turn(pod(name), EU) as turn:
                assert not turn
        with lines.turn(pod("elsewhere"), US) as turn:
            assert turn
        lines.leave("uid-nowhere")
        lines.leave("uid-unheard-of")
    assert names(woken) == ["here"]


@pytest.mark.looptime
async def test_more_may_go_when_a_target_is_prompt_again(looptime: float) -> None:
    most = {"eu": 1}
    woken: list[Key] = []
    lines = Lines(most.__getitem__, woken.append)
    with contextlib.ExitStack() as stack:
        with lines.turn(pod("a"), EU):
            with lines.turn(pod("b"), EU) as turn:
                assert not turn
            most["eu"] = 2
            assert stack.enter_context(lines.turn(pod("b"), EU))
        # It is no longer in line: what a has left is not for it, and its turn has no end but its own.
        assert woken == []
        assert stack.enter_context(lines.turn(pod("c"), EU))
        with lines.turn(pod("d"), EU) as turn:
            assert not turn
        await asyncio.sleep(60)
        assert woken == []
    assert names(woken) == ["d"]


@pytest.mark.looptime
async def test_a_turn_lasts_as_long_as_it_takes_but_one_that_is_not_taken_goes_to_the_next(looptime: float) -> None:
    woken: list[Key] = []
    lines = Lines({"eu": 1}.__getitem__, woken.append)
    with lines.turn(pod("begun"), EU):
        for name in ("idle", "next"):
            with lines.turn(pod(name), EU):
                pass
        await asyncio.sleep(60)
        assert woken == []
    assert names(woken) == ["idle"]
    await asyncio.sleep(5.1)
    assert names(woken) == ["idle", "next"]
    with lines.turn(pod("idle"), EU) as turn:
        assert not turn
