"""Requeueing of Placements: fast at first, and with growing delay when two keep affecting each other."""

import asyncio

import pytest

from agent.placement.placements.pacing import QUIET_SECONDS, Pacing

KEY = ("shop", "web")


@pytest.mark.looptime
async def test_it_waits_until_it_is_quiet_and_no_longer_than_its_patience() -> None:
    pacing = Pacing()
    assert pacing.wait(KEY) == 0
    waited = 0.0
    pacing.touch(KEY)
    while pacing.wait(KEY) > 0:
        await asyncio.sleep(QUIET_SECONDS / 2)
        waited += QUIET_SECONDS / 2
        pacing.touch(KEY)
    assert QUIET_SECONDS < waited <= 0.3


@pytest.mark.looptime
async def test_who_moves_again_and_again_looks_at_others_ever_later() -> None:
    pacing = Pacing()
    pauses = []
    for _ in range(20):
        pauses.append(pacing.pause(KEY))
        await asyncio.sleep(pauses[-1])
        pacing.moved(KEY)
    assert pauses[0] == pauses[1] == QUIET_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60


@pytest.mark.looptime
async def test_who_has_stayed_for_a_while_looks_at_others_at_once() -> None:
    pacing = Pacing()
    for _ in range(8):
        pacing.moved(KEY)
    assert pacing.pause(KEY) > 1
    await asyncio.sleep(121)
    pacing.moved(KEY)
    assert pacing.pause(KEY) == QUIET_SECONDS
    pacing.forget(KEY)
    assert pacing.pause(KEY) == QUIET_SECONDS
