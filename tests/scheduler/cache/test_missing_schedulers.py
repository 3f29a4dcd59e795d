"""Targets without a scheduler that pods name."""

import asyncio

import pytest

from agent.scheduler.cache.missing_schedulers import MissingSchedulers
from tests.ranking.pods_and_targets import target_info

EU, US = target_info("eu"), target_info("us")
VOLCANO = {"schedulerName": "volcano"}


@pytest.mark.looptime
async def test_a_target_without_a_pods_scheduler_is_not_ready_for_it_until_the_evidence_expires() -> None:
    changes: list[float] = []
    missing = MissingSchedulers(lambda: changes.append(asyncio.get_running_loop().time()))
    missing.note(EU.node_name, "volcano")
    eu, us = missing.seen_by(VOLCANO, "", (EU, US))
    assert (eu.ready, us) == (False, US)
    assert "no scheduler volcano" in eu.state
    for source, claim in (({}, ""), ({"schedulerName": "yunikorn"}, ""), (VOLCANO, EU.node_name)):
        assert list(missing.seen_by(source, claim, (EU, US))) == [EU, US]
    await asyncio.sleep(299)
    missing.note(EU.node_name, "volcano")
    assert not missing.seen_by(VOLCANO, "", (EU,))[0].ready
    await asyncio.sleep(2)
    assert missing.seen_by(VOLCANO, "", (EU,))[0].ready
    assert changes == [300]
    missing.note(EU.node_name, "volcano")
    await asyncio.sleep(599)
    assert not missing.seen_by(VOLCANO, "", (EU,))[0].ready


@pytest.mark.looptime
async def test_one_that_takes_up_a_pod_is_missing_no_longer() -> None:
    changes: list[str] = []
    missing = MissingSchedulers(lambda: changes.append("changed"))
    missing.forget(EU.node_name, "volcano")
    missing.note(EU.node_name, "volcano")
    missing.forget(EU.node_name, "volcano")
    assert list(missing.seen_by(VOLCANO, "", (EU,))) == [EU]
    assert changes == ["changed"]
